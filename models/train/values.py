"""Names and values for the generated tasks, divided so that held-out ones never occur in training.

A value belongs to the held-out side when the CRC-32 of its lower-cased text is 0 modulo 8. Each word of
a person's or place's made-up name is divided by the same rule.
"""

import random
import string
import zlib

FIRST_NAMES = """Anna Ben Clara David Emma Felix Grace Henry Iris Jack Kate Leo Lily Max Mia Nora Oscar Paul Rosa
Sam Sara Tom Tim Lucy Mary John Jane Peter Molly Daisy Billy Emily Sophie Jacob Alice Anne Arthur Bella Carol
Daniel Edith Frank George Helen Ivan Julia Karl Laura Martin Nina Oliver Pamela Ralph Simon Tara Ursula Victor
Wendy Zoe Hugo Ella Fred Greta Harold Ida Jonas Kurt Lena Marco Olga Robert Susan Theo Vera Walter""".split()
LAST_NAMES = """Baker Carter Dixon Evans Fisher Gray Harris Hill Jones King Lewis Mason Moore Nelson Owens Parker
Quinn Reed Shaw Smith Turner Wade White Young Brown Clark Cole Hunt Lane Marsh Page Price Rose Stone Wood Wells
Archer Bishop Cooper Draper Fletcher Hooper Miller Porter Sawyer Tanner""".split()
ADJECTIVES = """red blue green yellow white black brown silver golden copper wooden old new small large tiny heavy
striped round square broken bright dusty soft hard long short paper glass iron velvet silk clay leather woolen
painted folded hidden rusty shiny purple orange pink gray spotted plain carved narrow wide curved smooth""".split()
NOUNS = """kettle lamp box key hat coat chair table ladder spoon basket ring watch drum flute kite clock mirror
bottle bucket button candle carpet coin comb cup doll fan feather flag hammer jar knife lantern map marble mask
needle pan pencil pillow plate purse ribbon rope saw scarf shell shovel stamp sword towel toy trumpet umbrella
vase violin wagon whistle cushion blanket bell ball brush notebook tray trunk compass horn ink kettle stool""".split()
ANIMALS = "dog cat horse rabbit parrot goat pony turtle hamster duck hen goose sheep donkey mouse frog".split()
MONTHS = """January February March April May June July August September October November December""".split()
FOODS = """bread soup apples cheese rice honey plums pears cake pie fish beans carrots noodles porridge pancakes
grapes nuts eggs toast salad cherries""".split()
ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fr gr tr st pl bl cl fl gl sh th ch sk sp".split()
VOWELS = "a e i o u a e i o ai ea ie oa ou".split()
CODAS = "n r l s t m k d p x nd rk lt st rn lm ck sh th ss nt".split() + [""] * 12
PLACE_ENDINGS = ["ville", "ton", "ford", "burg", "field", "wick", "haven", "dale", "port", "mouth", "stead", ""]


def is_held_out(text):
    return zlib.crc32(text.lower().encode()) % 8 == 0


class Values:
    """Draws values of one side. `used` collects what was drawn since it was last cleared."""

    def __init__(self, rng, held_out):
        self.rng = rng
        self.held_out = held_out
        self.used = []

    def _draw(self, make):
        while True:
            value = make()
            if is_held_out(value) == self.held_out:
                return value

    def _note(self, value):
        self.used.append(value)
        return value

    def pick(self, *options):
        return self.rng.choice(options)

    def chance(self, p):
        return self.rng.random() < p

    def _invent(self, n_syllables):
        r = self.rng
        word = "".join(r.choice(ONSETS) + r.choice(VOWELS) for _ in range(n_syllables)) + r.choice(CODAS)
        if r.random() < 0.2:
            word = word.lstrip(string.ascii_lowercase.translate({ord(v): None for v in "aeiou"})) or word
        return word

    def invented(self):
        return self._draw(lambda: self._invent(self.rng.choice((1, 2, 2, 2, 3))))

    def _name(self, known):
        if not self.held_out and self.chance(0.4):
            return self._draw(lambda: self.rng.choice(known))
        return self.invented().capitalize()

    def first(self):
        return self._note(self._name(FIRST_NAMES))

    def person(self):
        return self._note(f"{self._name(FIRST_NAMES)} {self._name(LAST_NAMES)}")

    def place(self):
        def make():
            return (self._invent(self.rng.choice((1, 1, 2))) + self.rng.choice(PLACE_ENDINGS)).capitalize()

        return self._note(self._draw(make))

    def thing(self):
        return self._note(self._draw(lambda: f"{self.rng.choice(ADJECTIVES)} {self.rng.choice(NOUNS)}"))

    def title(self):
        def make():
            words = [self.rng.choice(ADJECTIVES).capitalize(), self.rng.choice(NOUNS).capitalize()]
            return self.pick("The ", "", "My ", "") + " ".join(words) + self.pick("", "", "s")

        return self._note(self._draw(make) if self.chance(0.6) else self.invented().capitalize())

    def code(self):
        shapes = ("AA-0000", "A0-000", "000-AAA", "AAAA", "00000", "AA00AA", "0000-0000", "A00-B00", "aaa000")

        def one(c):
            if c in "AB":
                return self.rng.choice(string.ascii_uppercase)
            if c == "a":
                return self.rng.choice(string.ascii_lowercase)
            return self.rng.choice(string.digits) if c == "0" else c

        return self._note(self._draw(lambda: "".join(map(one, self.rng.choice(shapes)))))

    def number(self):
        return self._note(self._draw(lambda: str(self.rng.randint(1000, 10 ** self.rng.randint(4, 6)))))

    def phone(self):
        return self._note(self._draw(lambda: f"555-{self.rng.randint(0, 9999):04d}"))

    def price(self):
        return self._note(self._draw(lambda: f"${self.rng.randint(1, 400)}.{self.rng.randint(0, 99):02d}"))

    def date(self):
        return self._note(
            self._draw(lambda: f"{self.rng.choice(MONTHS)} {self.rng.randint(1, 28)}, {self.rng.randint(1900, 2060)}")
        )

    def time(self):
        return self._note(self._draw(lambda: f"{self.rng.randint(0, 23)}:{self.rng.randint(0, 59):02d}"))

    def street(self):
        kind = self.pick("Street", "Road", "Lane", "Avenue")
        return self._note(f"{self.rng.randint(1, 99)} {self.invented().capitalize()} {kind}")

    def email(self):
        return self._note(f"{self.invented()}@{self.invented()}.{self.pick('com', 'org', 'net')}")

    def word(self):
        return self._note(self.invented())
