"""The three runs: everybody at once, an instance killed, a holder frozen. Each plays one lock and says what came of it."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from stage.load import Crowd, Single, buy
from stage.processes import Etcd, Instance, Nginx, Redis, StageError, wait_until

# How long one crowd may take; whoever still waits then is counted and left.
CROWD_SECONDS = 90
# How many purchases an instance makes before it counts.
WARM_UP = 50


@dataclass
class Shop:
    """What the runs work with."""

    stock: int
    customers: int
    ttl: int
    locks: list[str]
    port: int
    redis: Redis
    etcd: Etcd
    nginx: Nginx
    instances: list[Instance]
    progress: Callable[[str], None]

    def reset(self) -> None:
        self.redis.ask("FLUSHALL")
        self.redis.ask(f"SET stock {self.stock}")
        self.redis.ask("SET lucky 0")


@dataclass
class Result:
    """What came of one run with one lock."""

    lock: str
    counts: Counter
    pieces: int
    stock: int
    lucky: int
    seconds: float
    waiting: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def oversold(self) -> int:
        """Pieces sold that were not there."""
        return max(0, self.lucky + self.stock - self.pieces)

    def check(self, good: bool, problem: str) -> None:
        if not good:
            self.problems.append(problem)


def follow(shop: Shop, crowd: Crowd, lock: str) -> None:
    """Shows progress until everybody has an answer, or the time is up."""
    deadline = time.monotonic() + CROWD_SECONDS
    while not crowd.is_done() and time.monotonic() < deadline:
        answered = crowd.counts()
        told = ", ".join(f"{number} {name.lower().replace('_', ' ')}" for name, number in sorted(answered.items()))
        shop.progress(f"  {lock:<10} {sum(answered.values())} of {crowd.count} answered: {told or 'all wait'}")
        time.sleep(0.05)
    crowd.close()


def result(shop: Shop, lock: str, crowd: Crowd, extra: tuple[str, ...] = ()) -> Result:
    """What customers and Redis say at the end; `extra` are answers beside the crowd's."""
    counts = crowd.counts() + Counter(outcome.split()[0] for outcome in extra)
    last = max((answer.finished for answer in crowd.answers), default=time.monotonic())
    return Result(
        lock, counts, shop.stock, shop.redis.number("stock"), shop.redis.number("lucky"), last - crowd.started, crowd.pending()
    )  # fmt: skip


def everybody(shop: Shop, lock: str) -> Result:
    """All customers at once, and nothing breaks."""
    open_shop(shop, lock)
    crowd = Crowd(shop.customers, shop.port, lock)
    follow(shop, crowd, lock)
    found = result(shop, lock, crowd)
    found.check(found.stock == 0, f"stock is {found.stock}, not 0")
    found.check(found.lucky == shop.stock, f"lucky is {found.lucky}, not {shop.stock}")
    found.check(found.counts["BOUGHT"] == shop.stock, f"{found.counts['BOUGHT']} were told that they bought")
    refused = shop.customers - shop.stock
    found.check(found.counts["SOLD_OUT"] == refused, f"{found.counts['SOLD_OUT']} refused, not {refused}")
    return found


def killed(shop: Shop, lock: str) -> Result:
    """One instance is killed in the middle of the sale, with whatever it holds and whoever waits there."""
    open_shop(shop, lock)
    crowd = Crowd(shop.customers, shop.port, lock)
    wait_until("a third of the sale", lambda: shop.redis.number("lucky") >= shop.stock // 3 or crowd.is_done(), CROWD_SECONDS)
    shop.instances[0].kill()
    at, sold = time.monotonic(), shop.redis.number("lucky")
    follow(shop, crowd, lock)
    found = result(shop, lock, crowd)
    # The longest time without a purchase, once the instance was gone.
    bought = [at] + sorted(each.finished for each in crowd.answers if each.outcome == "BOUGHT" and each.finished > at)
    pause = max((later - earlier for earlier, later in zip(bought, bought[1:])), default=None)
    found.facts["sold before the kill"] = str(sold)
    found.facts["longest pause after it"] = "no purchase at all" if pause is None else f"{pause:.2f} s"
    found.check(found.oversold == 0, f"{found.oversold} oversold")
    found.check(
        shop.stock - 1 <= found.stock + found.lucky <= shop.stock,
        f"stock {found.stock} and lucky {found.lucky} do not add up to {shop.stock}, nor to one less",
    )
    answered = sum(found.counts.values())
    found.check(answered == shop.customers, f"{answered} of {shop.customers} have an answer")
    found.check(
        found.counts["BOUGHT"] + found.counts["SOLD_OUT"] + found.counts["FAILED"] == shop.customers,
        f"unexpected answers: {dict(found.counts)}",
    )
    found.check(pause is not None and pause <= shop.ttl + 1, f"the other instance went on after {pause} s, TTL {shop.ttl} s")
    return found


def frozen(shop: Shop, lock: str) -> Result:
    """The holder is frozen between its read and its write, and wakes up when another one is at the same place."""
    open_shop(shop, lock)
    one, two = shop.instances
    first = Single(one.port, lock, 500)
    wait_until("the first purchase", lambda: shop.redis.ask("GET thinking") == one.name, 30)
    one.signal(signal.SIGSTOP)
    at = time.monotonic()
    shop.progress(f"  {lock:<10} instance {one.name} is frozen between its read and its write")
    try:
        # Long enough to see what the one who wakes up does to the owner.
        second = Single(two.port, lock, 3000)
        wait_until(
            "the second purchase", lambda: shop.redis.ask("GET thinking") == two.name, shop.ttl * 2 + 10
        )
        took_over = time.monotonic() - at
        before = owner(shop, lock)
    finally:
        one.signal(signal.SIGCONT)
    shop.progress(f"  {lock:<10} instance {one.name} is awake, while {two.name} is between its read and its write")
    first.join(10)
    after, still_there = owner(shop, lock), second.answer is None
    second.join(30)
    if not (first.answer and second.answer):
        raise StageError(f"{lock}: a purchase was never answered")
    outcomes = (first.answer.outcome, second.answer.outcome)
    crowd = Crowd(shop.customers - 2, shop.port, lock)
    follow(shop, crowd, lock)
    found = result(shop, lock, crowd, outcomes)
    found.facts["taken over after"] = f"{took_over:.2f} s"
    found.facts["the one that woke up"] = outcomes[0].lower()
    kept = still_there and before == after
    found.facts["its unlock freed"] = "nobody" if kept else "the other's lock"
    found.check(outcomes[0] == "FENCED", f"the one that woke up was told {outcomes[0]}, not FENCED")
    found.check(outcomes[1] == "BOUGHT", f"the other one was told {outcomes[1]}, not BOUGHT")
    found.check(took_over <= shop.ttl + 1, f"the other instance got the lock after {took_over:.2f} s, TTL {shop.ttl} s")
    found.check(bool(before) and kept, f"the queue's first was {before} and is {after}")
    found.check(found.oversold == 0 and found.lucky == shop.stock, f"lucky is {found.lucky}, stock {found.stock}")
    refused = shop.customers - 1 - shop.stock
    found.check(found.counts["SOLD_OUT"] == refused, f"{found.counts['SOLD_OUT']} sold out, not {refused}")
    return found


def owner(shop: Shop, lock: str) -> list[str | None]:
    """Who has the lock, by its key; nobody where there is none."""
    return [shop.redis.ask("GET sale-lock")] if lock == "redis" else shop.etcd.queue(f"/sale/{lock}/")[:1]


def open_shop(shop: Shop, lock: str) -> None:
    """Fills the stock, and starts an instance anew that an earlier run has killed."""
    for number, instance in enumerate(shop.instances):
        if instance.popen.poll() is not None:
            shop.progress(f"  {lock:<10} the killed instance starts anew")
            shop.instances[number] = instance.again()
            shop.instances[number].wait_ready()
            warm_up(shop, shop.instances[number])
    shop.reset()


def warm_up(shop: Shop, instance: Instance) -> None:
    """Connections, leases and compiled code, so that no run pays for them."""
    for lock in shop.locks:
        shop.reset()
        for _ in range(WARM_UP):
            outcome = buy(instance.port, lock).outcome
            if outcome != "BOUGHT":
                raise StageError(f"{lock}: a single purchase at instance {instance.name} gave {outcome}\n{instance.said()}")
