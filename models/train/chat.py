"""Conversations in the model's own template, made from stories, tasks and a little small talk."""

import re

from bpe import ASSISTANT, BOS, EOS, SYSTEM, USER
from values import ANIMALS, FOODS, NOUNS

SYSTEMS = ["You are a helpful assistant.", "You are Troika, a small and friendly model.", "Answer briefly.",
           "You tell stories to children."]  # fmt: skip
TOPICS = sorted(set(ANIMALS + FOODS + NOUNS + """bear bird fox lion monkey dragon fairy princess king queen robot car
truck train boat tree flower garden park beach forest house castle school rain snow sun moon star ball doll toy book
swing slide friend mom dad sister brother baby teddy kitten puppy bee butterfly fish frog owl elephant squirrel bunny
cookie ice lollipop picnic birthday balloon bike river lake mountain farm farmer store treasure wizard rainbow""".split()))
OPENERS = ["Tell me a story.", "Tell me a short story.", "Write a story for a child.", "Can you tell me a story?",
           "I would like to hear a story.", "Tell me a bedtime story.", "A story, please!"]  # fmt: skip
TOPIC_OPENERS = ["Tell me a story about {x}.", "Write a short story about {x}.", "Can you tell me a story about {x}?",
                 "I want a story about {x}.", "Please tell a story with {x} in it.", "Story about {x}, please."]  # fmt: skip
SMALL_TALK = [
    (["Hello!", "Hi!", "Hi there.", "Hello", "Hey!", "Good morning!", "Good evening."],
     ["Hello! How can I help you?", "Hi! Would you like to hear a story?"]),
    (["Who are you?", "What are you?", "What is your name?", "Are you a person?"],
     ["I am Troika, a small language model. I can tell stories and answer questions about a text."]),
    (["What can you do?", "How can you help me?", "What are you good at?", "Help"],
     ["I can tell little stories, and I can find answers in a text that you give me."]),
    (["How are you?", "How are you today?", "How do you do?"], ["I am fine, thank you. How are you?"]),
    (["Thank you.", "Thanks!", "Thank you very much!", "That was nice.", "Great!"],
     ["You are welcome!", "I am glad that you like it."]),
    (["Goodbye.", "Bye!", "See you later.", "Good night."], ["Goodbye! See you soon."]),
    (["Do you like stories?", "Do you like books?"], ["Yes, I like them very much. Shall I tell you a story?"]),
]  # fmt: skip


def conversation(tokenizer, turns, system=None, weight=2):
    """Returns (tokens, weights): only what the assistant says is learned."""
    tokens, weights = [BOS], [0]
    if system:
        body = [SYSTEM, *tokenizer.encode(system), EOS]
        tokens += body
        weights += [0] * len(body)
    for user, assistant in turns:
        body = [USER, *tokenizer.encode(user), EOS, ASSISTANT]
        answer = [*tokenizer.encode(assistant), EOS]
        tokens += body + answer
        weights += [0] * len(body) + [weight] * len(answer)
    return tokens, weights


def maybe_system(rng):
    return rng.choice(SYSTEMS) if rng.random() < 0.15 else None


def story_request(rng, story, about=()):
    """A request that this story answers: its first name, and things that it speaks of (those it is about, if known)."""
    present = list(about) or [t for t in TOPICS if re.search(rf"\b{t}\b", story)]
    name = re.search(r"\b(?:named|called) ([A-Z][a-z]+)", story)
    x = rng.random()
    if name and x < 0.25:
        subject = name.group(1)
        if present and rng.random() < 0.5:
            subject += f" and a {rng.choice(present)}"
    elif present and x < 0.85:
        chosen = rng.sample(present, min(len(present), rng.choice((1, 1, 2))))
        subject = " and ".join(f"{'an' if t[0] in 'aeiou' else 'a'} {t}" for t in chosen)
    else:
        return rng.choice(OPENERS)
    return rng.choice(TOPIC_OPENERS).format(x=subject)


def story_conversation(rng, tokenizer, story, about=()):
    turns = [(story_request(rng, story, about), story)]
    if rng.random() < 0.1:
        turns.insert(0, [rng.choice(side) for side in SMALL_TALK[0]])
    elif rng.random() < 0.1:
        turns.append([rng.choice(side) for side in SMALL_TALK[4]])
    return conversation(tokenizer, turns, maybe_system(rng), weight=1)


def task_conversation(rng, tokenizer, context, turns):
    """The context comes with the first question, the other questions follow as turns of their own."""
    parts = []
    for i, (question, _, sentence) in enumerate(turns):
        parts.append((f"{context}\n\n{question}" if i == 0 else question, sentence))
    return conversation(tokenizer, parts, maybe_system(rng))


def small_talk(rng, tokenizer):
    turns = []
    for users, answers in rng.sample(SMALL_TALK, rng.choice((1, 1, 2))):
        turns.append((rng.choice(users), rng.choice(answers)))
    return conversation(tokenizer, turns, maybe_system(rng))
