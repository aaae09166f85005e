"""What goes to the native module and comes from it: tuples, for which the package has classes."""

from __future__ import annotations

from typing import TypeAlias

About: TypeAlias = "tuple[str | None, str | None, int | None, str | None, str | None]"
Contender: TypeAlias = "tuple[str, int, str | None, About, bool, tuple[int, int] | None, bool, bool]"
# A name, whether its claim is shared, or its permits and their limit.
Claim: TypeAlias = "tuple[str, bool, tuple[int, int] | None]"
# How long to wait, the TTL, whether to renew and to queue again, the turns and the time of local_first, and how long to linger.
Options: TypeAlias = "tuple[int | None, int | None, bool, bool, tuple[int, int] | None, int | None]"
Leader: TypeAlias = "tuple[str, int, bytes, int]"
Value: TypeAlias = "int | tuple[list[tuple[float, int]], float]"
Family: TypeAlias = "tuple[str, str, str | None, str, list[tuple[list[tuple[str, str]], Value]]]"
