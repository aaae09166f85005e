"""How long the machine kept somebody waiting who was ready to run: what a test with a promise in seconds cannot tell from a fault.

A thread sleeps a moment, again and again, and notes by how much it woke up late. On a virtual machine that loses its processors for
a second, or with more work than processors, that is what every lease, every deadline and every server meets as well.
"""

import threading
import time

TICK_SECONDS = 0.05
# A hold-up is worth a note from here on: half of the shortest TTL. Shorter ones are every busy machine's, and excuse nothing.
LATE_SECONDS = 1.0


class Pulse:
    """Notes hold-ups from its creation on."""

    def __init__(self) -> None:
        # When it should have woken up, and by how much it was late, on the monotonic clock.
        self.noted: list[tuple[float, float]] = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            due = time.monotonic() + TICK_SECONDS
            time.sleep(TICK_SECONDS)
            self.note(due, time.monotonic())

    def note(self, due: float, woken: float) -> None:
        if woken - due >= LATE_SECONDS:
            self.noted.append((due, woken - due))

    def longest(self, begun: float, ended: float) -> float:
        """The longest hold-up of which a part lies between the two moments, in seconds; 0 if there was none."""
        return max((late for due, late in self.noted if due < ended and due + late > begun), default=0.0)
