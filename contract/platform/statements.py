"""Whether a sentence is a statement, not a question, greeting, command or code; and whether it may be worth keeping.

These are rules for what people say in passing, in some languages. They look at words alone.
"""

import re
from typing import Final

from contract.platform import words

QUESTION: Final = re.compile(
    r"(?:and |so |but |ok(?:ay)?,? |hey,? )?(?:who|what|when|where|why|how|which|whose|can|could|would|will|do|does|"
    r"did|is|are|am|"
    r"was|were|should|shall|have you|has|may i|any idea|"
    r"est-ce|qu'est|pourquoi|comment|combien|quels?|quelles?|où|peux-tu|pouvez-vous|pourrais|"
    r"warum|wieso|wie|was|wo|wann|wer|welche[rsmn]?|kannst|könntest|können sie|"
    r"puedes|podrías|cómo|cuándo|dónde|cuál|quién|qué|¿|puoi|potresti|come si|quando|dove|chi|"
    r"kun je|kan je|waar|wanneer|hoe|você pode|como|onde)(?:[\s'’]|$)",
    re.IGNORECASE,
)
ASKED: Final = ("?", "？", "か", "か。", "吗", "吗。", "呢")
GREETING: Final = re.compile(
    r"(?:hi|hiya|hello|hey|thanks|thank you|thx|bye|goodbye|good (?:morning|evening|night|afternoon)|cheers|welcome|"
    r"bonjour|bonsoir|salut|merci|au revoir|hallo|guten (?:tag|morgen|abend)|danke|tschüss|hola|buenos|buenas|"
    r"gracias|ciao|"
    r"buongiorno|grazie|bedankt|dank je|olá|obrigad[oa]|こんにちは|ありがとう|你好|谢谢)(?:[\s,.!。！]|$)",
    re.IGNORECASE,
)
COMMAND: Final = re.compile(
    r"(?:please |now |then |ok(?:ay)?,? |and |hey,? )?(?:write|translate|summari[sz]e|explain|show|tell me|give me|"
    r"make|create|"
    r"generate|fix|find|search|look|open|list|add|delete|remove|update|draft|rewrite|compare|help|calculate|convert|"
    r"read|"
    r"send|schedule|describe|suggest|recommend|refactor|implement|review|define|print|install|build|count|draw|play|"
    r"run|try|debug|analy[sz]e|imagine|pretend|suppose|act as|let me|let's see|"
    r"(?:set|check|plan|test|use|book|put|change|turn|start|stop) (?:a|an|the|this|that|it|up|my|if|whether|me|on|off)|"
    r"écris|écrivez|traduis|résume|explique|montre|donne|fais|cherche|schreib|übersetze|erkläre|zeig|gib|mach|such|"
    r"bitte|"
    r"escribe|traduce|explica|muestra|dame|haz|busca|scrivi|traduci|spiega|mostra|dammi|cerca|schrijf|vertaal|geef|"
    r"toon|"
    r"por favor|s'il (?:te|vous) plaît)(?:[\s,:-]|$)",
    re.IGNORECASE,
)
CODE: Final = re.compile(
    r"[ \t]*(?:def |class |import |from \w{1,40} import|const |let \w{1,40} =|var |function |return |"
    r"select .{1,200} from |\$ |>>> |"
    r"#include|public |sudo |git |npm |pip |docker |curl |at \w|traceback|\d{4}-\d\d-\d\d[t ]\d\d:\d\d)",
    re.IGNORECASE,
)
CODE_MARK: Final = re.compile(r"[{}<>=;\\|`]|\w\(|->|::|//")
# How many of these a sentence may have; more of them, and it is not for people.
CODE_MARKS: Final = 2

# Words by which a sentence is known to be in English, where the rules for English are.
ENGLISH: Final = re.compile(
    r"\b(?:the|is|are|and|of|to|it|that|this|was|were|for|with|you|have|has|not|be|my|at|from|i'm|i've|"
    r"an)\b",
    re.IGNORECASE,
)
# "I", "my", "we", "our", and what says as much, in other languages.
OF_ONESELF: Final = re.compile(
    r"\b(?:je|mon|ma|mes|moi|nous|notre|nos|ich|mein(?:e[rnms]?)?|wir|unser(?:e[rnms]?)?|mir|mich|uns|"
    r"yo|mi|mis|nuestr[oa]s?|tengo|soy|estoy|vivo|trabajo|io|mi[oa]|miei|mie|nostr[oaie]|ho|sono|abito|lavoro|"
    r"eu|meus?|minhas?|noss[oa]s?|tenho|sou|moro|ik|mijn|wij|we|onze|ons|jag|jeg|min|mitt|mina|mine|vår[at]?|vores|vi|"
    r"mam|jestem|mieszkam|mój|moja|moje|nasz[ae]?|я|мой|моя|моё|мои|мы|наша?|наши|мне|меня)\b"
    r"|\b[jJ]['’]\w|私|僕|俺|わたし|ぼく|我|나는|저는|제가|우리|내 |제 ",
    re.IGNORECASE,
)
ADDRESS: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.\w|\bhttps?://\S")
DIGIT: Final = re.compile(r"\d")
# A capital inside a sentence: a name, in most languages that have capitals; a weekday or a month.
NAME: Final = re.compile(r"(?<=[^\W\d_A-Z][ ])(?!I\b)[^\W\d_a-zà-þ][\w'’-]{1,40}|(?<=, )(?!I\b)[A-Z][a-z]{1,40}")


def is_statement(sentence: str) -> bool:
    """Whether a sentence tells something, rather than asking, greeting, commanding or programming."""
    if sentence.endswith(ASKED) or QUESTION.match(sentence) or GREETING.match(sentence):
        return False
    if COMMAND.match(sentence) or CODE.match(sentence):
        return False
    return len(CODE_MARK.findall(sentence)) < CODE_MARKS


def is_telling(sentence: str) -> bool:
    """Whether a statement is likely to be a fact: it has a number, a name or an address, or is about its speaker."""
    if ADDRESS.search(sentence) or DIGIT.search(sentence) or NAME.search(sentence):
        return True
    return len(ENGLISH.findall(sentence)) < 2 and OF_ONESELF.search(sentence) is not None


def is_of_size(sentence: str, shortest: int, longest: int) -> bool:
    return shortest <= words.count(sentence) <= longest
