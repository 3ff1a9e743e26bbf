"""Little stories told by rule: a plot, a cast, and several ways to say each step.

    python3 stories.py [N] [SEED]

The written stories are few, and a model of a few million parameters learns their words from them, but not that
a ball which is lost is the ball that is found. These say little, and always that.
"""

import random
import sys

import values

GIRLS = "Lily Mia Anna Lucy Sue Emma Zoe Amy Ella Rosie Nina Kate".split()
BOYS = "Tim Tom Ben Max Sam Jack Leo Finn Bob Noah Dan Luke".split()
COLOURS = "red blue green yellow white brown little big shiny soft".split()
TOYS = "ball kite doll car boat teddy drum hat book robot train balloon".split()
PETS = "dog cat bunny puppy kitten duck turtle hen".split()
WILD = "bird fox owl squirrel mouse hedgehog frog bear".split()
FOODS = "cake pie sandwich cookie pizza pancake pudding".split()
PLACES = "park garden forest field".split()
GROWN_UPS = [("mom", "she"), ("dad", "he"), ("grandma", "she"), ("grandpa", "he"), ("aunt", "she"), ("uncle", "he")]
SPOTS = ["under a bush", "behind a tree", "under the bench", "in the tall grass", "behind the gate", "under some leaves"]

# A plot names the things that it speaks of, and its steps; ways to say a step stand between bars.
# {n} is the child, {m} a second one, {g} a grown-up, {t} a toy with its colour, {T} without, {p} a pet, {w} a wild animal,
# {f} food, {l} a place, {s} a spot. {he} {him} {his} are the child's, {mhe} {mhim} {mhis} the second one's, {ghe} the grown-up's;
# with a capital ({He}, {A_w}) for the start of a sentence.
PLOTS = [
    ("T", [
        "{n} had {a_t}.|{n} loved {his} {t} very much.|{n} had {a_t}. It was {his} favorite toy.",
        "One day, {he} took the {T} to the {l}.|One morning, {n} went to the {l} with {his} {T}.",
        "{He} played all day. But when it was time to go home, the {T} was gone.|{He} put the {T} down to look at {a_w}. When {he} came back, the {T} was not there.",
        "{n} was very sad. \"Where is my {T}?\" {he} cried.|{n} began to cry. \"I lost my {T}!\" {he} said.",
        "{His} {g} heard {him}. \"Do not cry,\" {ghe} said. \"We will look for it together.\"|{His} {g} came and gave {him} a hug. \"Let us look for the {T},\" {ghe} said.",
        "They looked by the pond, but the {T} was not there. They looked near the swing, but it was not there.|They looked here and they looked there, but they did not see the {T}.",
        "Then {n} looked {s}. There was the {T}!|At last {n} looked {s}, and there it was!",
        "\"I found my {T}!\" {n} said. {He} was so happy.|{n} jumped with joy. \"Here is my {T}!\" {he} said.",
        "{He} thanked {his} {g}, and they went home together.|From that day on, {n} always took good care of {his} {T}.",
    ]),
    ("F", [
        "{n} had {a_f}. It smelled very good.|{n}'s {g} made {a_f} for {him}. It looked very good.",
        "{He} took the {f} to the {l} and sat down to eat.|{He} sat down in the {l} to eat the {f}.",
        "Then {m} came. {m} was hungry and had nothing to eat.|There {he} saw {m}. {m} looked sad. \"I am so hungry,\" {mhe} said.",
        "{n} looked at the {f}. {He} wanted to eat it all.|At first {n} did not want to share. It was {his} {f}.",
        "But then {n} thought, \"{m} is my friend.\"|But {n} did not want {his} friend to be sad.",
        "So {he} cut the {f} in two and gave one half to {m}.|{n} gave half of the {f} to {m}. \"This is for you,\" {he} said.",
        "\"Thank you, {n}!\" {m} said. \"You are very kind.\"|{m} smiled a big smile. \"Thank you!\" {mhe} said.",
        "They ate the {f} together, and it was better than eating alone.|They ate the {f} and laughed. Then they played until the sun went down.",
    ]),
    ("P", [
        "{n} had {a_p}. The {p} liked to climb.|{n} and {his} {p} were best friends.",
        "One day, they went to the {l}. The {p} saw a butterfly and ran after it.|One day, the {p} ran into the {l}, and {n} ran after it.",
        "The {p} ran up a hill and fell into a hole. It could not get out.|The {p} fell into a deep hole and could not get out.",
        "{n} tried to reach it, but {his} arms were too short.|{n} looked down. \"Do not be scared,\" {he} said. But the hole was too deep for {him}.",
        "{He} ran to {his} {g}. \"Please help! My {p} is in a hole!\" {he} said.|{He} called {his} {g}. \"Come quickly! My {p} fell into a hole!\"",
        "{His} {g} came with a long rope.|{His} {g} came with a ladder.",
        "Soon the {p} was out of the hole. It was dirty, but it was not hurt.|Down {ghe} went, and soon {ghe} came back with the {p}.",
        "{n} hugged the {p}. \"I am so glad that you are safe,\" {he} said.|{n} held the {p} and would not let it go. \"Thank you!\" {he} said to {his} {g}.",
        "They all went home, and {n} gave the {p} a bath.|That night, the {p} slept next to {n}'s bed.",
    ]),
    ("P", [
        "It was night, and {n} was in bed.|One night, {n} could not sleep.",
        "{He} heard a noise. Tap, tap, tap. It came from under the bed.|There was a noise at the door. Scratch, scratch.",
        "{n} was scared. \"Is it a monster?\" {he} thought.|\"What is that?\" {n} thought. {He} hid under the blanket.",
        "{He} called {his} {g}, and {ghe} came with a light.|\"Come here, please!\" {he} called. {His} {g} came into the room.",
        "\"Let us see what it is,\" {ghe} said.|\"Do not be scared,\" {ghe} said. \"We will look together.\"",
        "They looked, and what did they see? It was only the {p}!|They looked, and there sat the {p}. It wanted to come to bed, too.",
        "{n} laughed. \"You are not a monster,\" {he} said. \"You are my {p}!\"|\"Silly {p}!\" {n} said, and {he} laughed and laughed.",
        "Then the {p} lay down beside {n}, and they both slept well.|{His} {g} put out the light. {n} was not scared any more.",
    ]),
    ("W", [
        "One day, {n} walked in the {l} and saw {a_w}.|{n} was playing in the {l} when {he} heard a little cry. It was {a_w}.",
        "The {w} had a hurt leg and could not walk.|The {w} could not move. Its leg was hurt.",
        "\"Poor {w}!\" {n} said. \"I will help you.\"|\"Do not be scared,\" {n} said. \"I want to help you.\"",
        "{He} carried the {w} home and put it in a warm box.|{He} took the {w} home in {his} hat and made a bed for it.",
        "{His} {g} tied a soft cloth around the leg.|{His} {g} showed {him} how to clean the leg.",
        "Every day, {n} gave the {w} food and water.|{n} fed the {w} each morning and sat with it each night.",
        "After a week, the {w} was well again.|Soon the leg was well, and the {w} could walk.",
        "{n} took it back to the {l}. {He} was a little sad, but {he} knew that it was right.|\"Now you can go home,\" {n} said, and {he} set it down in the {l}.",
        "The {w} looked back at {him} one more time. It was its way to say thank you.|The next day, the {w} came back to say hello. They were friends now.",
    ]),
    ("F", [
        "{n} wanted to make {a_f} for {his} {g}.|It was the birthday of {n}'s {g}. {n} wanted to make {a_f}.",
        "But there was no sugar in the kitchen.|{He} looked in the kitchen, but there were no eggs.",
        "So {he} went to {m}, who lived next door.|\"I will ask {m},\" {he} thought, and {he} ran to the house next door.",
        "\"Can you help me?\" {n} asked. \"Yes,\" said {m}, \"I can.\"|\"I want to make {a_f}. Will you help me?\" {n} asked. {m} was happy to help.",
        "They went back to the kitchen and mixed everything in a big bowl.|{m} brought what they needed, and they began to work.",
        "Soon the {f} was done. It smelled so good!|They made a big mess, but the {f} looked very nice.",
        "{n} gave the {f} to {his} {g}. \"This is for you!\" {he} said.|When {his} {g} came home, the {f} was on the table.",
        "\"What a nice surprise!\" said {his} {g}. \"Thank you both.\"|{His} {g} was so happy that {ghe} gave them both a hug.",
        "Then all three ate the {f} together.|They sat down, and everyone had a piece.",
    ]),
    ("", [
        "{n} found a little seed in the {l}.|{n}'s {g} gave {him} a little seed.",
        "\"What will it be?\" {he} asked. \"Wait and see,\" said {his} {g}.|{He} put it into the ground and gave it some water.",
        "Every day, {n} went to look. But there was nothing to see.|The first day, nothing came up. The second day, nothing came up.",
        "\"It does not grow,\" {n} said, and {he} was sad.|\"Maybe it is a bad seed,\" {n} said.",
        "\"Give it time,\" said {his} {g}. \"Seeds are slow.\"|\"You must wait a little more,\" {his} {g} said.",
        "So {n} waited, and {he} gave it water every day.|{n} did not give up. {He} gave it water again and again.",
        "Then one morning, there was a small green leaf!|One day, it rained, and then the sun came out. There was a green leaf!",
        "The leaf grew and grew, and at last there was a big yellow flower.|It grew as tall as {n}, and it had a beautiful red flower.",
        "{n} was proud. \"It was worth the wait,\" {he} said.|{n} gave the flower to {his} {g}, and they both smiled.",
    ]),
    ("T", [
        "{n} and {m} both wanted to play with the {t}.|{n} was playing with {a_t}. Then {m} came and wanted it, too.",
        "\"It is mine!\" said {n}. \"No, it is mine!\" said {m}.|\"Give it to me!\" {m} said. \"No!\" said {n}.",
        "They pulled and pulled. Then the {T} broke.|{n} pulled, and {m} pulled, and the {T} fell and broke.",
        "They were both very sad. Nobody could play now.|They looked at the {T}. {m} began to cry, and {n} cried, too.",
        "\"I am sorry,\" said {n}. \"I am sorry, too,\" said {m}.|\"We should not fight,\" {n} said. \"I am sorry.\" {m} was sorry, too.",
        "They took the {T} to {n}'s {g}, who had some glue.|{n}'s {g} saw the {T}. \"I can help you to fix it,\" {ghe} said.",
        "They worked together, and soon the {T} was as good as new.|It took a long time, but then the {T} was whole again.",
        "\"You play first,\" said {n}. \"No, let us play together,\" said {m}.|This time they took turns. First {m} played, and then {n}.",
        "They learned that it is more fun to share.|And they had more fun than ever before.",
    ]),
    ("", [
        "{n} was playing ball in the house.|{n} ran through the kitchen as fast as {he} could.",
        "{His} {g} had said not to do it, but {he} did not listen.|{He} was not careful.",
        "Crash! The big blue cup fell from the table and broke.|Crash! A pretty glass fell down and broke.",
        "{n} was afraid. \"What will {ghe} say?\" {he} thought.|{n} wanted to hide. {He} did not know what to do.",
        "But {he} knew that it is best to tell the truth.|{He} thought for a while. Then {he} went to {his} {g}.",
        "\"I broke it,\" {he} said. \"I am very sorry.\"|\"It was me,\" {he} said. \"I am sorry that I broke it.\"",
        "{His} {g} was not angry. \"Thank you for telling me the truth,\" {ghe} said.|{His} {g} looked at {him}. \"I am glad that you told me,\" {ghe} said.",
        "They cleaned the floor together.|\"Come, we will clean it up together.\" And so they did.",
        "After that, {n} only ran and played outside.|From then on, {n} was always careful in the house.",
    ]),
    ("W", [
        "There was a little {w} who lived in the {l}.|In the {l} there lived a little {w}.",
        "The little {w} was sad, because it had no friends.|The {w} was shy. It always played alone.",
        "One day, {n} came to the {l} and saw the {w}.|Then {n} came by. \"Hello, little {w}!\" {he} said.",
        "\"Why are you sad?\" {n} asked. \"I have no one to play with,\" said the {w}.|The {w} wanted to run away, but {n} sat down and smiled.",
        "\"You can play with me,\" {n} said.|\"I would like to be your friend,\" {n} said.",
        "They played in the grass all day. They ran, and they jumped, and they laughed.|First they played hide and seek. The {w} hid {s}, and {n} looked for it.",
        "When the sun went down, {n} had to go home.|Then {n}'s {g} called. It was time to go home.",
        "\"Will you come back?\" asked the {w}. \"Yes,\" said {n}, \"I will come tomorrow.\"|\"I will come again tomorrow,\" {n} said.",
        "And {he} did. The {w} was never alone again.|The next day {n} came back, and the {w} was waiting for {him}.",
    ]),
    ("P", [
        "{n} and {his} {p} wanted to have a picnic in the {l}.|It was a sunny day. {n} packed a basket to have a picnic in the {l} with {his} {p}.",
        "They had bread and apples and a big blanket.|{n} carried the basket, and the {p} ran ahead.",
        "But then dark clouds came, and it began to rain.|But when they sat down, it began to rain.",
        "\"Oh no!\" said {n}. \"We are getting wet!\"|The blanket got wet, and the {p} got wet, and {n} got wet.",
        "They ran home as fast as they could.|So they ran all the way home.",
        "{n} was sad. \"Now we cannot have our picnic,\" {he} said.|{n} sat at the window. \"No picnic today,\" {he} said.",
        "{His} {g} had an idea. {Ghe} put a dry blanket on the floor.|\"We can have it here,\" said {his} {g}, and {ghe} put a blanket on the floor.",
        "They sat down and ate, and the {p} got an apple, too.|They ate on the floor, while the rain fell on the roof.",
        "\"This is the best picnic ever!\" said {n}.|It was so much fun that {n} forgot the rain.",
    ]),
    ("T", [
        "It was the first day of school for {m}. {Mhe} did not know anyone.|{m} was new at school. {Mhe} sat alone and looked at the floor.",
        "{n} saw {mhim}. {n} remembered that {he} had been new, too.|{n} looked at {m}. \"{m} looks sad,\" {he} thought.",
        "So {he} took {his} {t} and went to {m}.|{n} had {a_t}. {He} took it and sat down next to {m}.",
        "\"Hello,\" {he} said, \"my name is {n}. Do you want to play with my {T}?\"|\"Do you like my {T}?\" {he} asked. \"You can play with it.\"",
        "{m} looked up and smiled. \"Yes, please,\" {mhe} said.|{m} was surprised. \"May I?\" {mhe} asked. \"Of course,\" said {n}.",
        "They played with the {T} until the teacher called them.|They took turns with the {T}, and soon they both laughed.",
        "After school, {m} told {mhis} mom, \"I have a new friend!\"|On the way home, {m} was not sad any more.",
        "From that day on, {n} and {m} always sat together.|The next day, {m} brought a toy for {n}. They were best friends now.",
    ]),
    ("TP", [
        "{n} had {a_p} and {a_t}.|{n} loved {his} {p} and {his} {t}.",
        "One day, they went to the {l} to play.|One morning, {n} took the {p} and the {T} to the {l}.",
        "But the {p} took the {T} and ran away with it.|{n} put down the {T}. The {p} took it and ran away.",
        "\"Come back!\" {n} called. \"That is my {T}!\"|\"Stop!\" {n} called, but the {p} did not stop.",
        "{n} ran after the {p}. They ran around and around.|{He} ran and ran, but the {p} was too fast.",
        "Then {n} sat down in the grass, because {he} was tired.|At last {n} had to stop. {He} was tired, and {he} sat down.",
        "And what did the {p} do? It came back and put the {T} at {his} feet.|The {p} looked at {him}. It came back and gave {him} the {T}.",
        "\"You only wanted to play with me!\" {n} said, and {he} laughed.|{n} laughed. \"Good {p}!\" {he} said. \"You wanted to play, too.\"",
        "So they played with the {T} together until it was dark.|They played together all day, and then they went home.",
    ]),
    ("TW", [
        "{n} had {a_t}. {He} played with it in the {l}.|{n} went to the {l} to play with {his} {t}.",
        "When it was time to eat, {he} went home and forgot the {T}.|Then it began to rain. {n} ran home and forgot the {T}.",
        "In the evening {n} looked for the {T}, but it was not in {his} room.|At home {n} looked in {his} bag. The {T} was not there!",
        "\"I forgot my {T} in the {l},\" {he} told {his} {g}. {He} was sad.|\"My {T} is still in the {l}!\" {he} said to {his} {g}.",
        "\"It is dark now. We will look for it tomorrow,\" said {his} {g}.|\"We will go there in the morning,\" {ghe} said.",
        "The next morning, they went to the {l}. There sat {a_w}, next to the {T}.|In the morning, they went back. {A_w} was sitting {s}, and it had the {T}.",
        "The {w} had kept it safe all night.|\"Look!\" said {n}. \"The {w} found my {T}!\"",
        "\"Thank you, little {w},\" {n} said.|{n} gave the {w} some bread to thank it.",
        "Then {he} took the {T} home and never forgot it again.|The {w} was happy, and {n} was happy, too.",
    ]),
]  # fmt: skip
ENDINGS = ["", "", " The end.", " They were all very happy."]


def with_article(words):
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def cast(rng):
    """Who and what a story is about: names and words for the marks of the plots."""
    roles = {}
    for key, (names, words) in zip("nm", rng.sample([(GIRLS, ("she", "her", "her")), (BOYS, ("he", "him", "his"))], 2)):
        if key == "m" and rng.random() < 0.4:  # both girls or both boys, of different names
            names, words = roles["kind"]
            names = [x for x in names if x != roles["n"]]
        roles["kind"] = (names, words)
        roles[key] = rng.choice(names)
        prefix = "" if key == "n" else "m"
        roles |= {prefix + "he": words[0], prefix + "him": words[1], prefix + "his": words[2]}
    del roles["kind"]
    roles["g"], roles["ghe"] = rng.choice(GROWN_UPS)
    roles["T"] = rng.choice(TOYS)
    toys = [f"{colour} {roles['T']}" for colour in COLOURS]
    roles["t"] = rng.choice([t for t in toys if not values.is_held_out(t)])
    for key, words in (("p", PETS), ("w", WILD), ("f", FOODS), ("l", PLACES), ("s", SPOTS)):
        roles[key] = rng.choice(words)
    roles |= {f"a_{k}": with_article(roles[k]) for k in "tpwf"}
    starts = {k.capitalize(): v[0].upper() + v[1:] for k, v in roles.items() if len(k) > 1}
    return roles | starts


def opening(rng, roles):
    """Makes the child known before the plot speaks of it."""
    child = "girl" if roles["he"] == "she" else "boy"
    kind = rng.choice(["little", "little", "young", "kind", "happy"])
    named = rng.choice(["named", "named", "called"])
    return rng.choice([
        f"Once upon a time, there was a {kind} {child} {named} {roles['n']}. ",
        f"Once upon a time there was a {kind} {child}. {roles['he'].capitalize()} was {named} {roles['n']}. ",
        f"There was once a {child} {named} {roles['n']}. ",
        f"{roles['n']} was a {kind} {child}. ",
    ])  # fmt: skip


def tell(rng):
    """(story, what it is about): `about` has the words that a request may name."""
    things, steps = rng.choice(PLOTS)
    roles = cast(rng)
    said = [rng.choice(step.split("|")).format(**roles) for step in steps]
    breaks = {rng.randrange(1, 3), rng.randrange(4, 6), len(said) - 2} if rng.random() < 0.6 else set()
    body = "".join(("\n\n" if i in breaks else " " if i else "") + s for i, s in enumerate(said))
    about = [roles[{"T": "T", "F": "f", "P": "p", "W": "w"}[k]] for k in things]
    return opening(rng, roles) + body + rng.choice(ENDINGS), about


def generate(rng, n):
    for _ in range(n):
        yield tell(rng)


if __name__ == "__main__":
    count, seed = (int(x) for x in (sys.argv[1:] + ["5", "1"][len(sys.argv) - 1 :])[:2])
    for story, about in generate(random.Random(seed), count):
        print(f"[{', '.join(about)}]\n{story}\n")
