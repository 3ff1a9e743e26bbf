"""Generated tasks whose answer stands in the context.

A task is (kind, context, turns), a turn is (question, answer, sentence): the bare answer, and the same
as a polite sentence for conversations. Values come from one side of values.py only.
"""

from values import Values

RECORDS = {
    "contact": [("name", "person"), ("phone", "phone"), ("city", "place"), ("street", "street"),
                ("email", "email"), ("birthday", "date"), ("employer", "title"), ("customer number", "number")],
    "parcel": [("parcel number", "code"), ("sender", "person"), ("recipient", "person"), ("contents", "thing"),
               ("shelf", "code"), ("destination", "place"), ("arrival", "date"), ("postage", "price")],
    "journey": [("train", "code"), ("from", "place"), ("to", "place"), ("departure", "time"), ("arrival", "time"),
                ("seat", "code"), ("fare", "price"), ("passenger", "person"), ("date", "date")],
    "product": [("item", "thing"), ("maker", "title"), ("price", "price"), ("article number", "code"),
                ("made in", "place"), ("warehouse", "place"), ("buyer", "person")],
    "appointment": [("with", "person"), ("date", "date"), ("time", "time"), ("place", "place"),
                    ("topic", "title"), ("room", "code"), ("phone", "phone")],
    "book": [("title", "title"), ("author", "person"), ("publisher", "title"), ("shelf mark", "code"),
             ("price", "price"), ("borrowed by", "person"), ("due", "date")],
    "account": [("user", "word"), ("email", "email"), ("password", "code"), ("plan", "title"),
                ("member since", "date"), ("balance", "price"), ("region", "place"), ("id", "number")],
}  # fmt: skip


def record(v, least=3, most=8):
    """A title and some (field, value) in random order. A few fields have invented names."""
    kind = v.rng.choice(list(RECORDS))
    fields = RECORDS[kind]
    fields = v.rng.sample(fields, min(len(fields), v.rng.randint(least, most)))
    rows = [(name, getattr(v, make)()) for name, make in fields]
    if v.chance(0.3):
        rows.insert(v.rng.randrange(len(rows) + 1), (v.invented(), v.pick(v.code, v.word, v.number, v.title)()))
    return kind, rows


def show_record(v, kind, rows):
    style = v.rng.randrange(6)
    head = v.pick("", f"{kind.capitalize()}\n", f"{kind.capitalize()} record:\n", f"--- {kind} ---\n")
    if style == 0:
        return head + "\n".join(f"{f}: {x}" for f, x in rows)
    if style == 1:
        return head + "\n".join(f"{f.capitalize()}: {x}" for f, x in rows)
    if style == 2:
        return head + "\n".join(f"{f} = {x}" for f, x in rows)
    if style == 3:
        return head + "\n".join(f"- {f.capitalize()}: {x}" for f, x in rows)
    if style == 4:
        return head + "; ".join(f"{f}: {x}" for f, x in rows)
    return head + " ".join(f"The {f} is {x}." for f, x in rows)


def extract(v):
    kind, rows = record(v)
    turns = []
    for f, x in v.rng.sample(rows, min(len(rows), 4)):
        q = v.pick(f"What is the {f}?", f"What is the {f}?", f"Give the {f}.", f"Find the {f}.", f"{f}?",
                   f"Which value has the field {f}?")  # fmt: skip
        turns.append((q, x, f"The {f} is {x}."))
    return "extract", show_record(v, kind, rows), turns


def table(v):
    """Some records with the same fields; rows are found by their first column, or backwards."""
    kind = v.rng.choice(list(RECORDS))
    columns = [("name", "person" if v.chance(0.5) else "first")]
    columns += [c for c in v.rng.sample(RECORDS[kind], 4) if c[0] != "name"][: v.rng.randint(1, 3)]
    rows = [[getattr(v, make)() for _, make in columns] for _ in range(v.rng.randint(2, 5))]
    names = [c[0] for c in columns]
    style = v.rng.randrange(3)
    if style == 0:
        lines = ["| " + " | ".join(r) + " |" for r in [names, *rows]]
    elif style == 1:
        lines = ["- " + "; ".join(r) for r in [names, *rows]]
    else:
        lines = [", ".join(f"{n}: {x}" for n, x in zip(names, r)) for r in rows]
    turns = []
    for _ in range(3):
        r, c = v.rng.choice(rows), v.rng.randrange(1, len(names))
        if v.chance(0.75):
            turns.append((f"What is the {names[c]} of {r[0]}?", r[c], f"The {names[c]} of {r[0]} is {r[c]}."))
        else:
            q = f"Which name has the {names[c]} {r[c]}?"
            turns.append((q, r[0], f"The name is {r[0]}."))
    return "table", "\n".join(lines), turns


# {P} a person, {B} another, and one value: (sentence, question, maker of the value).
FACTS = [
    ("{P} lives in {x}.", "Where does {P} live?", "place"),
    ("{P} was born in {x}.", "Where was {P} born?", "place"),
    ("{P} was born on {x}.", "When was {P} born?", "date"),
    ("{P} comes from {x}.", "Where does {P} come from?", "place"),
    ("{P} works for {x}.", "Who does {P} work for?", "title"),
    ("{P} bought a {x}.", "What did {P} buy?", "thing"),
    ("{P} found a {x} in the garden.", "What did {P} find?", "thing"),
    ("{P} lost a {x} on the way home.", "What did {P} lose?", "thing"),
    ("{P} gave {B} a {x}.", "What did {P} give {B}?", "thing"),
    ("{P} sold a {x} to {B}.", "What did {P} sell?", "thing"),
    ("{P} wants a {x} for the winter.", "What does {P} want?", "thing"),
    ("{P} broke the {x}.", "What did {P} break?", "thing"),
    ("{P} keeps the {x} under the bed.", "What does {P} keep under the bed?", "thing"),
    ("{P} has a dog called {x}.", "What is the name of {P}'s dog?", "first"),
    ("{P} has a cat named {x}.", "What is {P}'s cat called?", "first"),
    ("{P}'s best friend is {x}.", "Who is {P}'s best friend?", "first"),
    ("{P}'s sister is {x}.", "Who is {P}'s sister?", "first"),
    ("{P} went to {x} by train.", "Where did {P} go?", "place"),
    ("{P} wrote a letter to {x}.", "Who did {P} write to?", "first"),
    ("{P} met {x} at the market.", "Who did {P} meet at the market?", "first"),
    ("{P} waits for {x} at the door.", "Who does {P} wait for?", "first"),
    ("{P} reads a book called {x}.", "What is {P}'s book called?", "title"),
    ("{P} sings a song called {x}.", "Which song does {P} sing?", "title"),
    ("{P} arrived at {x}.", "When did {P} arrive?", "time"),
    ("{P} gets up at {x}.", "When does {P} get up?", "time"),
    ("{P} paid {x} for the ticket.", "How much did {P} pay?", "price"),
    ("{P} earned {x} this week.", "How much did {P} earn?", "price"),
    ("{P}'s phone number is {x}.", "What is {P}'s phone number?", "phone"),
    ("{P}'s secret word is {x}.", "What is {P}'s secret word?", "word"),
    ("{P}'s room has the number {x}.", "What is the number of {P}'s room?", "code"),
    ("The code of {P}'s door is {x}.", "What is the code of {P}'s door?", "code"),
    ("{P}'s boat is called the {x}.", "What is {P}'s boat called?", "title"),
    ("{P} saw {x} on the hill.", "Who did {P} see on the hill?", "person"),
    ("{P} travels to {x} in the spring.", "Where does {P} travel in the spring?", "place"),
    ("{P} will visit us on {x}.", "When will {P} visit us?", "date"),
]  # fmt: skip
FILLERS = """It was a warm day.|The sun was shining.|It rained all morning.|Everyone was glad.|The house was quiet.
The birds sang in the trees.|Nobody knew why.|Then it was time for dinner.|The wind was cold.|That was long ago.
The children laughed.|There was snow on the roof.|They had a lot of fun.|It was a good plan.""".replace("\n", "|").split("|")


def qa(v):
    """A passage of facts about two to four people, with filling sentences between them."""
    make_name = v.first if v.chance(0.7) else v.person
    people = []
    while len(people) < v.rng.randint(2, 4):
        name = make_name()
        if name not in people:
            people.append(name)
    facts, seen = [], set()
    for _ in range(v.rng.randint(3, 7)):
        template, question, make = v.rng.choice(FACTS)
        a, b = v.rng.sample(people, 2)
        if (question, a) in seen or ("{B}" in template and v.chance(0.3)):
            continue
        seen.add((question, a))
        x = getattr(v, make)()
        facts.append((template.format(P=a, B=b, x=x), question.format(P=a, B=b), x))
    sentences = []
    for fact, *_ in facts:
        sentences.append(fact)
        if v.chance(0.35):
            sentences.append(v.rng.choice(FILLERS))
    turns = [(q, x, f"The answer is {x}.") for _, q, x in v.rng.sample(facts, min(len(facts), 4))]
    return "qa", v.pick("", "", "Passage: ", "Text: ") + " ".join(sentences), turns


APPS = """Settings Camera Gallery Messages Contacts Clock Calendar Music Maps Mail Browser Notes Files Phone
Calculator Weather Recorder Store Photos Wallet Radio News Health Books""".split()
BUTTONS = """Send|Cancel|OK|New contact|New message|Delete|Share|Edit|Save|Search|Play|Pause|Next|Back|Add|Call|Reply
Archive|Sort by name|Sort by date|Show all|Help|About|More options|Record|Stop|Download|Print|Copy|Paste|Undo
Forward|Mark as read|New folder|Rename|Sign in|Sign out|Add to favorites|Change view type|Start""".replace("\n", "|").split("|")
SWITCHES = """Wi-Fi|Bluetooth|Airplane mode|Dark theme|Location|Notifications|Vibration|Auto-rotate|Battery saver|Hotspot
Keep screen on|Show hidden files|Gapless playback|Use 24-hour time|Automatic updates|Sound""".replace("\n", "|").split("|")
INPUTS = "Search|Name|Message|Subject|Phone number|Address|Title|City|Note|Password|User name|Email".split("|")


def screen_elements(v):
    """(type, label) of a screen; on the held-out side the labels that are asked for are new ones."""
    elements, labels = [], set()
    for _ in range(v.rng.randint(3, 7)):
        what = v.rng.random()
        fresh = v.held_out or v.chance(0.5)
        if what < 0.45:
            label = v.pick(v.title, v.person, v.first)() if fresh else v.rng.choice(BUTTONS + APPS)
            kind = v.pick("button", "row", "icon") if fresh else v.pick("button", "icon")
        elif what < 0.75:
            label, kind = (v.title() if fresh else v.rng.choice(SWITCHES)), "switch"
        else:
            label, kind = (v.title() if fresh else v.rng.choice(INPUTS)), "input"
        if label not in labels:
            labels.add(label)
            elements.append((kind, label))
    return elements


def show_screen(v, elements):
    style = v.rng.randrange(4)
    head = v.pick(f"Screen: {v.rng.choice(APPS)}\n", f"App: {v.rng.choice(APPS)}\n", "Screen:\n")
    if style == 0:
        return head + "\n".join(f'{k} "{x}"' for k, x in elements)
    if style == 1:
        return head + "\n".join(f'[{i}] {k} "{x}"' for i, (k, x) in enumerate(elements, 1))
    if style == 2:
        return head + "\n".join(f"<{k}>{x}</{k}>" for k, x in elements)
    return head + "\n".join(f'- "{x}" ({k})' for k, x in elements)


def ui(v):
    elements = screen_elements(v)
    turns = []
    for kind, label in v.rng.sample(elements, min(len(elements), 4)):
        if kind == "switch":
            task = f"{v.pick('turn on', 'turn off', 'switch on', 'switch off', 'toggle')} {label}"
            action = f'toggle "{label}"'
        elif kind == "input":
            text = v.pick(v.first, v.word, v.thing, v.place, v.code)()
            task = v.pick(f'type "{text}" into {label}', f'write "{text}" into {label}', f'enter "{text}" in {label}')
            action = f'type "{text}" into "{label}"'
        else:
            task = f"{v.pick('open', 'tap', 'press', 'choose', 'click on', 'go to')} {label}"
            action = f'tap "{label}"'
        turns.append((task, action, action))
    if not v.held_out and v.chance(0.06):
        turns.append(v.pick(("go back", "back", "back"), ("scroll down",) * 3, ("scroll up",) * 3))
    return "ui", show_screen(v, elements), turns


def summary(v):
    """Scattered facts of one event; the summary joins the same spans in a fixed form."""
    p, b = v.first(), v.first()
    place, thing, date = v.place(), v.thing(), v.date()
    verb = v.pick("found", "bought", "lost", "saw", "painted", "repaired", "sold")
    body = [v.pick(f"On {date}, {p} went to {place}.", f"{p} travelled to {place} on {date}.")]
    body += [v.rng.choice(FILLERS)] if v.chance(0.6) else []
    body += [v.pick(f"There {p} {verb} a {thing}.", f"After an hour {p} {verb} a {thing}.")]
    body += [v.rng.choice(FILLERS)] if v.chance(0.6) else []
    body += [v.pick(f"{b} was very surprised.", f"{p} told {b} about it.", f"{b} came along too.")]
    answer = f"{p} went to {place} on {date} and {verb} a {thing}. {b} knows about it."
    return "summary", " ".join(body), [("Summarize the text.", answer, answer)]


def form(v):
    """The same form again with one field changed: long answers that are mostly copies."""
    kind, rows = record(v, 3, 6)
    copy, turns = list(rows), []
    for _ in range(v.rng.randint(1, 2)):
        i = v.rng.randrange(len(copy))
        name = copy[i][0]
        make = dict(RECORDS[kind]).get(name, "code")
        copy[i] = (name, getattr(v, make)())
        answer = "\n".join(f"{f}: {x}" for f, x in copy)
        turns.append((f"Fill in the form again, but with {name}: {copy[i][1]}", "\n" + answer, answer))
    return "form", f"Form: {kind}\n" + "\n".join(f"{f}: {x}" for f, x in rows), turns


def repeat(v):
    makers = (v.word, v.word, v.code, v.thing, v.first, v.place, v.number, v.title, v.time)
    items = [v.rng.choice(makers)() for _ in range(v.rng.randint(2, 9))]
    text = v.pick(" ", ", ", "; ", " / ").join(items)
    n = v.rng.choice((1, 1, 2))
    return "repeat", f"Line: {text}", [(v.pick("Repeat the line.", "Copy the line."), text, text)] * n


KINDS = {"extract": extract, "table": table, "qa": qa, "ui": ui, "summary": summary, "form": form, "repeat": repeat}
WEIGHTS = {"extract": 5, "table": 3, "qa": 5, "ui": 5, "summary": 1.5, "form": 1.5, "repeat": 2}


def generate(rng, n, held_out=False, kinds=None):
    """Yields (kind, context, turns, values): `values` are all that were drawn for it."""
    v = Values(rng, held_out)
    kinds = kinds or list(KINDS)
    for _ in range(n):
        v.used.clear()
        kind, context, turns = KINDS[rng.choices(kinds, [WEIGHTS[k] for k in kinds])[0]](v)
        if turns:
            yield kind, context, turns, list(v.used)


def prompt_of(kind, context, question):
    """A task as plain text; the answer follows after one space and ends with the end token."""
    if kind == "ui":
        return f"{context}\n\nTask: {question}\nAction:"
    return f"{context}\n\nQuestion: {question}\nAnswer:"
