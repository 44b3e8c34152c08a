"""How near two texts usually are to each other: models differ, and a threshold of one means nothing to another."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contract.platform.meaning.embedder import Vectors

# A question, and a note that answers it in other words. Each note answers no other question.
PAIRS: Final = (
    ("Where can I leave my car near the office?", "Staff parking is in the basement of the building next door."),
    ("What does our dog eat?", "Bruno gets two bowls of dry kibble a day."),
    ("When do we have to pay the landlord?", "The rent is due on the first of each month."),
    ("How do I get the server running again?", "If the machine hangs, restart it from the console and wait."),
    ("Which illness did my grandmother have?", "Granny was treated for diabetes in her last years."),
    ("Who writes the music for the film?", "The soundtrack is composed by Ana's brother."),
    ("How cold does it get there in winter?", "In January temperatures fall to minus twenty."),
    ("What should I cook for the guests?", "For Saturday's dinner: roast chicken with lemon and potatoes."),
    ("Is the flight early?", "Our plane departs at six in the morning."),
    ("How much did the new laptop cost?", "I bought the computer for twelve hundred euros."),
    ("Why was the release postponed?", "Shipping the new version was delayed because tests failed."),
    ("Where do the children learn to swim?", "The kids have lessons at the municipal pool on Tuesdays."),
)
TEXTS: Final = (*(question for question, _ in PAIRS), *(note for _, note in PAIRS))
# A model that hardly tells the two kinds apart is taken at its word.
LEAST_DIFFERENCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    """The usual cosine of a question with a note on something else, and with the note that answers it."""

    unrelated: float
    related: float

    @classmethod
    def of(cls, rows: "Vectors") -> "Scale":
        """From the vectors of `TEXTS`."""
        near = rows[: len(PAIRS)] @ rows[len(PAIRS) :].T
        diagonal = float(near.trace())
        others = float(near.sum()) - diagonal
        return cls(others / (len(PAIRS) * (len(PAIRS) - 1)), diagonal / len(PAIRS))

    @property
    def tells_apart(self) -> bool:
        return self.related - self.unrelated >= LEAST_DIFFERENCE

    def convert(self, cosine: float, to: "Scale") -> float:
        """What a cosine of this scale is on another one."""
        if not self.tells_apart:
            return cosine
        share = (cosine - self.unrelated) / (self.related - self.unrelated)
        return min(max(to.unrelated + share * (to.related - to.unrelated), -1.0), 1.0)


# Of the model that comes with the platform, for which the fusion of words and meaning was chosen.
OFFLINE: Final = Scale(unrelated=0.01, related=0.30)
