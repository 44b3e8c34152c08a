"""What a cosine of a model means: for one model 0.3 is a good match, for another any two texts have 0.7.

So every model is asked once for the vectors of the same few questions and notes, for which we know which belong
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.platform.meaning.embedder import Embedder

# A question and a note that answers it in other words.
PAIRS: Final[Sequence[tuple[str, str]]] = (
    ("where can I leave the car", "Parking is free behind the town hall after six."),
    ("what is the baby called", "They named their newborn Rafaela, after her great aunt."),
    ("how do I make the soup", "Fry the onions, add pumpkin and stock, simmer for half an hour and blend."),
    ("which shop mends shoes", "The cobbler on Station Road puts on new soles within a day."),
    ("why was the flight cancelled", "Heavy snow closed the runway, so all departures were called off."),
    ("when do I see the doctor", "Appointment at the clinic next Monday, quarter past nine."),
    ("what should the kids wear", "Pack rain jackets and boots for the children, the camp is in the woods."),
    ("who pays for the damage", "The insurer covers the broken window, apart from the first hundred."),
    ("what is our holiday plan", "In August we take the train to Portugal and stay two weeks on the coast."),
    ("is the food spicy", "Careful with their curry, it is very hot."),
    ("how do I sign in to the server", "Log on with your SSH key; passwords are switched off."),
    ("the website is down", "The web page does not load because the host ran out of disk space."),
    ("how much do we earn", "Revenue last quarter came to two million, with a profit of eight percent."),
    ("who leads the project", "Kenji is the manager in charge of the migration."),
    ("what did the client dislike", "The customer complained that the report was too long and hard to read."),
    ("which programming language do we use", "All services are written in Go, scripts in Python."),
    (
        "how do I restore the files",
        "Copies of all documents are kept for a month in the archive.",
    ),
    ("when does the new employee begin", "Our hire starts in the first week of May."),
    ("what instrument does she play", "Her violin lessons are on Thursdays."),
    ("what is wrong with my tooth", "The dentist found a cavity and will put in a filling."),
    ("name of the puppy", "We are getting a young dog, a terrier, and he will be Otto."),
    ("cheap place to sleep", "The hostel by the lake has beds for twenty euros a night."),
    ("how can I lose weight", "Eat less sugar, walk every day and sleep enough, the nutritionist says."),
    ("why is the room cold", "The radiator does not heat any more, its valve is stuck."),
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The usual cosine of texts that have nothing to do with each other, and of those that mean the same.

    On the way from the one (0) to the other (1), one may be half sure at `half_way` that two texts are about the same.
    How sure one may be rises the faster around it, the smaller `slope` is.
    """

    unrelated: float
    related: float
    half_way: float = 1.0
    slope: float = 0.45


def measured(embedder: Embedder) -> Calibration:
    import numpy as np

    questions = embedder.embed([question for question, _ in PAIRS])
    notes = embedder.embed([note for _, note in PAIRS])
    cosines = questions @ notes.T
    related = np.diagonal(cosines)
    unrelated = cosines[~np.eye(len(PAIRS), dtype=bool)]
    return Calibration(float(unrelated.mean()), float(related.mean()))
