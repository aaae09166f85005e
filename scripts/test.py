#!/usr/bin/env python3
"""Runs every check and test of the project, several stages at a time, and counts them in its last line.

A stage runs even when another one failed, in a process group of its own; its output goes to target/test-logs, and the end of that is
shown if it failed. What is to be built runs beside what waits. Ends with 0 only if nothing failed. `make test` calls this after
scripts/setup.sh; `make test FULL=1` runs everything in all its length, which is for a night.

A few failed tests of a stage during which the machine stood still (scripts/pulse.py) say as much about the machine as about the
tests. Such a stage is played once more, whole, when nothing runs beside it, and judged by that; the summary says so, and what had
failed. A failure without a hold-up, many failures, and a failed check count as they are.
"""

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import counts
from pulse import Pulse
from stages import LOGS, ROOT, TARGET, Stage, stages

# No stage may hang the rest: far above what each needs on two cores with cold caches.
LIMIT_SECONDS, FULL_LIMIT_SECONDS = 40 * 60, 4 * 3600
# How long processes may take to end by themselves when the run is interrupted: they remove the data of their servers.
GRACE_SECONDS = 5
SHOWN_LINES, SHOWN_FAILURES = 60, 40
# More failed tests of one stage than these are no accident of the machine's.
MOST_ACCIDENTS = 8
# How often it is said what is running, where nobody looks at a terminal.
TOLD_SECONDS = 60
# By this in its environment every process is known that a stage has started, whatever session it has moved to.
MARK = "LEASEHOLD_TEST_STAGE"


@dataclass
class Ended:
    """What became of a stage."""

    found: counts.Counts
    exit_code: int
    seconds: float
    # Of processors: how much of the time it worked.
    worked: float


@dataclass
class Run:
    """A run of stages: which have begun, and what became of those that have ended."""

    chosen: list[Stage]
    limit: float
    lanes: int
    pulse: Pulse = field(default_factory=Pulse)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    begun: dict[str, float] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    # What became of stages that are played again, and for how long the machine stood still then.
    before: dict[str, tuple[Ended, float]] = field(default_factory=dict)
    done: "queue.Queue[tuple[Stage, Ended]]" = field(default_factory=queue.Queue)

    def running(self) -> list[Stage]:
        return [stage for stage in self.chosen if stage.name in self.begun and stage.name not in self.ended]

    def ready(self) -> Stage | None:
        """The first stage that nothing keeps from starting."""
        running = self.running()
        if len(running) >= self.lanes:
            return None
        names, taken = {stage.name for stage in self.chosen}, {what for stage in running for what in stage.alone}
        for stage in self.chosen:
            is_free = taken.isdisjoint(stage.alone) and all(need in self.ended for need in stage.needs if need in names)
            if stage.name not in self.begun and is_free:
                return stage
        return None


def clean_reports(stage: Stage) -> None:
    """What a former run has left must not be counted again."""
    stage.report.unlink(missing_ok=True)
    for path in junit_reports(stage):
        path.unlink()


def junit_reports(stage: Stage) -> list[Path]:
    return [path for folder, pattern in stage.junit for path in sorted(folder.glob(pattern))]


def execute(stage: Stage, mark: str, limit: float) -> Ended:
    """Runs a stage to its end, and ends whatever it leaves behind."""
    begun = time.monotonic()
    clean_reports(stage)
    environment = {**os.environ, "CARGO_TERM_COLOR": "never", "NO_COLOR": "1", counts.PLACE: str(stage.report), **stage.environment}
    environment |= {"CARGO_TARGET_DIR": str(TARGET), MARK: f"{mark}/{stage.name}/"}
    command = ["nice", "-n", "15", *stage.command] if stage.gives_way else stage.command
    worked, exit_code = 0.0, 127
    with stage.log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            output.write(f"{stage.command[0]}: {error}\n".encode())
        else:
            timer = threading.Timer(limit, end_processes, [f"{mark}/{stage.name}/"])
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = exit_code = os.waitstatus_to_exitcode(status)
            worked = usage.ru_utime + usage.ru_stime
            if time.monotonic() - begun >= limit:
                output.write(f"\nstopped: longer than {limit:.0f} s\n".encode())
                exit_code = exit_code or 124
    end_processes(f"{mark}/{stage.name}/")
    return Ended(judge(stage, exit_code), exit_code, time.monotonic() - begun, worked)


def processes(mark: str) -> list[int]:
    """The processes whose mark starts so, whatever session they have moved to."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(word.startswith(wanted) for word in (entry / "environ").read_bytes().split(b"\0")):
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
    return found


def end_processes(mark: str, grace: float = 0) -> None:
    """Ends, by their ids, all processes with this mark; for so many seconds they may do it themselves."""
    deadline, number = time.monotonic() + grace, signal.SIGINT if grace else signal.SIGKILL
    told: set[int] = set()
    while left := processes(mark):
        if time.monotonic() >= deadline:
            number, told = signal.SIGKILL, set()
        for process in set(left) - told:
            told.add(process)
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def judge(stage: Stage, exit_code: int) -> counts.Counts:
    """What a stage adds to the summary."""
    if not stage.is_tests:
        return counts.Counts(passed=1) if exit_code == 0 else counts.Counts(failed=1, failures=[stage.name])
    found = counts.Counts()
    reports = [stage.report] if stage.report.exists() else []
    for report in reports + junit_reports(stage):
        try:
            found.add(counts.read(report))
        except ValueError as error:
            found.add(counts.Counts(failed=1, failures=[str(error)]))
    # A runner that counted nothing, or that failed without a failed test (it did not build, it crashed), has failed.
    if found.total == 0 or (exit_code != 0 and found.failed == 0):
        why = f"exit code {exit_code}" if exit_code else "no test ran"
        found.add(counts.Counts(failed=1, failures=[f"{stage.name}: {why}"]))
    return found


class Display:
    """What is said while it runs: a line for each start and end, and what is running for long."""

    def __init__(self, width: int) -> None:
        self.is_terminal, self.width = sys.stdout.isatty(), width
        self.begun = self.told = time.monotonic()
        self.has_status = False

    def line(self, text: str) -> None:
        if self.has_status:
            print("\r\033[2K", end="")
            self.has_status = False
        print(text, flush=True)
        self.told = time.monotonic()

    def clock(self) -> str:
        seconds = int(time.monotonic() - self.begun)
        return f"{seconds // 60:3}:{seconds % 60:02}"

    def starts(self, stage: Stage) -> None:
        self.line(f"{self.clock()}  {stage.name:<{self.width}}  starts")

    def ends(self, stage: Stage, ended: Ended) -> None:
        self.line(f"{self.clock()}  {stage.name:<{self.width}}  {ended.seconds:5.0f} s  {ended.found}")

    def goes_on(self, run: Run) -> None:
        now = time.monotonic()
        texts = [f"{stage.name} for {now - run.begun[stage.name]:.0f} s" for stage in run.running()]
        if self.is_terminal:
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r\033[2K{f'{self.clock()}  running: ' + ', '.join(texts):.{columns}}", end="", flush=True)
            self.has_status = True
        elif now - self.told >= TOLD_SECONDS:
            self.line(f"{self.clock()}  running: {', '.join(texts)}")


def show_failure(stage: Stage, ended: Ended, display: Display) -> None:
    """What one wants to see at once; the rest is in the log."""
    display.line(f"--- {shown(stage.log)}, exit code {ended.exit_code}")
    for failure in ended.found.failures[:SHOWN_FAILURES]:
        display.line(f"FAILED {failure}")
    display.line(f"--- its last {SHOWN_LINES} lines")
    # Not every tool can be told that nobody wants its colours.
    said = re.sub(r"\x1b\[[0-9;]*m", "", stage.log.read_text(errors="replace"))
    display.line("\n".join(said.splitlines()[-SHOWN_LINES:]))
    display.line("---")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def play(run: Run, display: Display) -> None:
    """Runs the chosen stages, as many at a time as there are lanes, and then by itself each whose failures can be the machine's."""
    play_all(run, display)
    run.lanes = 1
    for stage in run.chosen:
        ended, begun = run.ended[stage.name], run.begun[stage.name]
        held_up = run.pulse.longest(begun, begun + ended.seconds)
        if stage.is_tests and 0 < ended.found.failed <= MOST_ACCIDENTS and held_up:
            display.line(f"{display.clock()}  {stage.name}: the machine had stood still for {held_up:.1f} s; once more, by itself")
            stage.log.replace(first_log(stage))
            run.before[stage.name] = ended, held_up
    for name in run.before:
        del run.ended[name], run.begun[name]
    play_all(run, display)


def play_all(run: Run, display: Display) -> None:
    """Runs what has not ended yet."""
    while len(run.ended) < len(run.chosen):
        while stage := run.ready():
            run.begun[stage.name] = time.monotonic()
            display.starts(stage)
            threading.Thread(target=work, args=(run, stage), daemon=True).start()
        try:
            stage, ended = run.done.get(timeout=1)
        except queue.Empty:
            display.goes_on(run)
            continue
        run.ended[stage.name] = ended
        display.ends(stage, ended)
        if ended.found.failed:
            show_failure(stage, ended, display)


def first_log(stage: Stage) -> Path:
    return stage.log.with_suffix(".first.log")


def work(run: Run, stage: Stage) -> None:
    try:
        ended = execute(stage, run.mark, run.limit)
    except Exception as error:  # whatever it is, the others go on, and it counts as a failure
        ended = Ended(counts.Counts(failed=1, failures=[f"{stage.name}: {error!r}"]), 127, 0, 0)
    run.done.put((stage, ended))


def summarise(run: Run, display: Display) -> counts.Counts:
    """The stages in their own order, what was skipped and what failed, and the sum."""
    total = counts.Counts()
    display.line(f"\n{'stage':<{display.width}}  {'time':>7}  {'work':>7}")
    for stage in run.chosen:
        ended = run.ended[stage.name]
        total.add(ended.found)
        display.line(f"{stage.name:<{display.width}}  {ended.seconds:5.0f} s  {ended.worked:5.0f} s  {ended.found}")
    for stage in run.chosen:
        if stage.name in run.before:
            before, held_up = run.before[stage.name]
            display.line(
                f"played again: {stage.name}, whose {before.found.failed} failures ({shown(first_log(stage))}) came with a hold-up of "
                f"{held_up:.1f} s: {', '.join(before.found.failures)}"
            )
    for skip in dict.fromkeys(total.skips):
        display.line(f"skipped: {skip}")
    for stage in run.chosen:
        if found := run.ended[stage.name].found.failures[:SHOWN_FAILURES]:
            # Here as well: the end is often all that one gets to see.
            display.line(f"failed: {stage.name}, see {shown(stage.log)}{''.join(f'{chr(10)}  FAILED {name}' for name in found)}")
    seconds = time.monotonic() - display.begun
    work = sum(ended.worked for ended in run.ended.values())
    display.line(f"{seconds:.0f} s, with {work:.0f} s of work; logs in {shown(LOGS)}")
    times = {name: {"seconds": round(ended.seconds, 1), "worked": round(ended.worked, 1)} for name, ended in run.ended.items()}
    (LOGS / "times.json").write_text(json.dumps(times, indent=1))
    (LOGS / "summary.txt").write_text(f"{total}\n")
    return total


def choose(all_of_them: list[Stage], words: list[str]) -> list[Stage]:
    """The stages of these names, or whose names start so if there is none, and those that they need."""
    known, names = {stage.name for stage in all_of_them}, set()
    for word in words:
        names |= {word} if word in known else {name for name in known if name.startswith(word)}
    while missing := {need for stage in all_of_them if stage.name in names for need in stage.needs} - names:
        names |= missing
    return [stage for stage in all_of_them if stage.name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", metavar="NAME", default="", help="only this stage, or those that start so; several with commas; and what they need"
    )
    parser.add_argument("--list", action="store_true", help="list the stages and end")
    parser.add_argument("--full", action="store_true", help="everything in all its length, as with FULL=1: for a night")
    parser.add_argument("--lanes", type=int, default=2, help="so many stages at a time (default 2)")
    options = parser.parse_args()
    is_full = options.full or os.environ.get("FULL", "") not in ("", "0")
    if is_full:
        os.environ["LEASEHOLD_FULL"] = "1"  # the tests of C, Node and Python ask for it
    chosen = choose(stages(is_full), options.only.split(","))
    if options.lanes < 1:
        parser.error("there must be a lane")
    if not chosen:
        parser.error(f"there is no stage {options.only!r}; --list shows them")
    width = max(len(stage.name) for stage in chosen)
    if options.list:
        for stage in chosen:
            print(f"{stage.name:<{width}}  {' '.join(stage.command)}")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    display = Display(width)
    run = Run(chosen, FULL_LIMIT_SECONDS if is_full else LIMIT_SECONDS, options.lanes)
    try:
        play(run, display)
    except KeyboardInterrupt:
        display.line(f"interrupted; ending {', '.join(stage.name for stage in run.running()) or 'nothing'}")
        # A second one must not keep us from that.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_processes(run.mark, GRACE_SECONDS)
        return 130
    total = summarise(run, display)
    print(total, flush=True)
    return 0 if total.failed == 0 else 1


def interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # SIGINT, too: where this was started in the background it is ignored, and so it would be in all that is started here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    sys.exit(main())
