"""Locks that follow Django's transactions: held until the commit or the rollback, in each of the ways in which these come."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import django
import pytest
from conftest import Server, until
from django import conf, db

import leasehold
from leasehold import testing
from leasehold.django import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def database() -> Iterator[None]:
    conf.settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, USE_TZ=True
    )
    django.setup()
    run("CREATE TABLE written (what TEXT)")
    yield
    db.connection.close()


@pytest.fixture(autouse=True)
def empty(database: None) -> None:
    run("DELETE FROM written")


def run(statement: str, *parameters: object) -> list[Any]:
    with db.connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def write(what: str) -> None:
    run("INSERT INTO written VALUES (%s)", what)


def written() -> list[str]:
    return [what for (what,) in run("SELECT what FROM written ORDER BY rowid")]


def is_free(server: Server, name: str) -> bool:
    """By a view of etcd that is not ours: a release is confirmed before it says so."""
    return server.keys(f"{name}/") == []


def test_it_is_held_until_after_the_commit(client: leasehold.Client, server: Server, name: str) -> None:
    seen: list[bool] = []
    with atomic(client.lock(name)) as guard:
        assert leasehold.current_guard() is guard
        db.transaction.on_commit(lambda: seen.append(is_free(server, name)))
        write("a")
    assert seen == [False], "the commit comes first"
    assert is_free(server, name)
    assert written() == ["a"]
    assert leasehold.current_guard() is None


def test_inside_of_a_transaction_it_waits_for_that_one(client: leasehold.Client, server: Server, name: str) -> None:
    with db.transaction.atomic():
        with atomic(client.lock(name)) as guard:
            write("a")
        assert guard.held, "the outer transaction is open"
        with atomic(client.lock(f"{name}2")):
            write("b")
        assert not is_free(server, f"{name}2")
        assert guard.held
    assert is_free(server, name)
    assert is_free(server, f"{name}2")
    assert written() == ["a", "b"]
    assert leasehold.current_guard() is None


def test_a_rollback_releases_it(client: leasehold.Client, server: Server, name: str) -> None:
    with pytest.raises(ZeroDivisionError), atomic(client.lock(name)):
        write("a")
        raise ZeroDivisionError
    assert is_free(server, name)
    with pytest.raises(ZeroDivisionError), db.transaction.atomic():
        with atomic(client.lock(name)) as guard:
            write("b")
        assert guard.held
        raise ZeroDivisionError
    until(lambda: is_free(server, name), "released in the background")
    assert written() == []
    with client.lock(name, timeout=60):
        pass  # Nothing is left of the block.


def test_a_block_that_fails_ends_with_the_outer_transaction(
    client: leasehold.Client, server: Server, name: str
) -> None:
    with db.transaction.atomic():
        with pytest.raises(ZeroDivisionError), atomic(client.lock(name)) as guard:
            write("a")
            raise ZeroDivisionError
        assert guard.held
        assert written() == []
        write("b")
    assert is_free(server, name)
    assert written() == ["b"]


def test_a_savepoint_that_is_rolled_back_releases_what_came_in_it(
    client: leasehold.Client, server: Server, name: str
) -> None:
    with db.transaction.atomic():
        with pytest.raises(ZeroDivisionError), db.transaction.atomic():
            with atomic(client.lock(name)):
                write("a")
            raise ZeroDivisionError
        until(lambda: is_free(server, name), "released in the background")
        with atomic(client.lock(name, timeout=60)):
            write("b")
    assert is_free(server, name)
    assert written() == ["b"]


def test_what_lost_its_lock_is_not_committed(client: leasehold.Client, server: Server, name: str) -> None:
    for outer in (False, True):
        with pytest.raises(leasehold.LockLost, match="rolled back"):
            if outer:
                with db.transaction.atomic(), atomic(client.lock(name)) as guard:
                    write("a")
                    testing.lose(client, guard)
            else:
                with atomic(client.lock(name)) as guard:
                    write("a")
                    testing.lose(client, guard)
        assert written() == []
        assert leasehold.current_guard() is None


def test_a_loss_after_the_block_goes_to_the_log(
    client: leasehold.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "leasehold"), db.transaction.atomic():
        with atomic(client.lock(name)) as guard:
            write("a")
        testing.lose(client, guard)
    assert "after the commit" in caplog.text
    assert written() == ["a"]


def test_the_same_lock_again_in_a_transaction_would_wait_for_itself(client: leasehold.Client, name: str) -> None:
    with db.transaction.atomic():
        with atomic(client.lock(name)):
            write("a")
        with pytest.raises(leasehold.WouldDeadlock), atomic(client.lock(name)):
            pytest.fail("the body ran")
        pages = client.rwlock(f"{name}/pages")
        with atomic(pages.read()), atomic(pages.read()):
            write("b")
    assert written() == ["a", "b"]
    with atomic(client.lock(name)):
        write("c")


def test_a_hook_that_fails_keeps_no_lock(client: leasehold.Client, server: Server, name: str) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), db.transaction.atomic():
        db.transaction.on_commit(fail)
        with atomic(client.lock(name)):
            write("a")
    until(lambda: is_free(server, name), "Django never calls the hooks that come after")


def test_as_a_decorator(client: leasehold.Client, server: Server, name: str) -> None:
    @atomic(client.lock(name, timeout=60))
    def work(what: str) -> int:
        write(what)
        guard = leasehold.current_guard()
        assert guard is not None
        return guard.token

    assert work("a") < work("b")
    assert is_free(server, name)
    assert written() == ["a", "b"]


def test_a_transaction_by_hand_is_refused(client: leasehold.Client, server: Server, name: str) -> None:
    db.transaction.set_autocommit(False)
    try:
        with pytest.raises(db.transaction.TransactionManagementError, match="by hand"), atomic(client.lock(name)):
            pytest.fail("the body ran")
    finally:
        db.transaction.rollback()
        db.transaction.set_autocommit(True)
    assert is_free(server, name)


def test_a_lock_that_does_not_come_begins_nothing(client: leasehold.Client, name: str) -> None:
    with client.lock(name).acquire(), pytest.raises(leasehold.LockTimeout), atomic(client.lock(name, timeout=0)):
        pytest.fail("the body ran")
    assert not db.connection.in_atomic_block
