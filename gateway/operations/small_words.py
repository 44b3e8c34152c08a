"""Words that say little about the subject of a query. Pure data."""

from typing import Final

_ENGLISH: Final = """
a about after again against all also always am among an and any anybody anyone anything are as at away be because been
before being between both but by can cannot could d did do does doing done down during each either else etc even ever
every everybody everyone everything few for from further get gets give given go goes going gone got had has have having
he her here hers herself him himself his how however i if in into instead is it its itself just let lets like ll m many
may maybe me might mine more most much must my myself never no nobody none nor not nothing now of off often on once one
only onto or other others our ours ourselves out over own per perhaps please quite rather re really s same shall she
should since so some somebody somehow someone something sometimes soon still such t than thank thanks that the their
theirs them themselves then there these they this those though through thus to together too toward towards under until
unless up upon us usually ve very via was we were what whatever when whenever where wherever whether which while who
whoever whom whose why will with within without would yes yet you your yours yourself yourselves
"""
# Those of French, German, Spanish, Portuguese, Italian and Dutch, except for what is a word of English as well, like
# `comment` or `car`.
_OF_OTHER_LANGUAGES: Final = """
aan aber al alla alle als anche ao aos au auch auf aus aux avec avez avons bei beim bij bis bist ce ceci cela cet
cette che chi com como cual cuando d da dal dalla damit dann dans das dass dat de degli dei dein della delle dem der
des desde di dich dies diese diesem diesen dieser dieses dir dit doch donde door du durch e een ein eine einem einen
einer eines el ella elles ellos en entre eres es esa ese eso esta estan estas este esto et etait ete etre euch eux fue
gli hab habe haben han hasta hatte heb hebben heeft het hij hoe ich ihm ihn ihr ihre ik il ils ist j je kan kann kein
keine kun l la las le les leur leurs los lui maar mais mas mein meine mes mi mich mijn mir mit moi mon muy n naar nach
nao nas nel nella nicht niet noch nog non nos notre nous nuestra nuestro nun nur o ob oder ohne om onde ont onze ook
op para pela pelo perche pero piu por porque pourquoi qu qual quale quand quando que quel quelle quelles quels quem
questa questo qui quien quoi se sehr sein seine sem seu sich sind sobre sono sont sua sus tambem tambien te tem tiene
tra uber uit uma un una und une uns unser unter van vom von voor vor vos votre vous waar waarom wann wanneer waren
warum wat weil welche welchen welcher welches welke wenn wer werden wie wieder wij wir wird wo wurde wurden y ya yo ze
zijn zo zou zu zum zur
"""
SMALL: Final = frozenset(f"{_ENGLISH} {_OF_OTHER_LANGUAGES}".split())
"""Words of grammar, without accents: they are not looked for, unless a query has nothing else."""

_OF_NOTES: Final = """
answer bug detail error explain find fix help info information issue know memo mention note problem question recall
remember solution solve stuff tell thing think want
"""
GENERAL: Final = frozenset(_OF_NOTES.split())
"""Words that fit nearly every note. They count for less."""

# Particles and pronouns of Chinese, which stand between words without spaces.
SEPARATORS: Final = "的了是在和有我你他她它们吗呢吧啊与及就都也很么这那哪谁什怎为被把对从到"
