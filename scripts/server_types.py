#!/usr/bin/env python3
"""Holds every answer and event of a server to the types of OpenAI's and Anthropic's packages, strictly.

Usage: scripts/server_types.py URL [DOCUMENT]    in a venv with the packages openai and anthropic of PyPI

DOCUMENT is OpenAI's own description of its interface, openapi.json of github.com/openai/openai-openapi: then what answers
as OpenAI does is held to its schemas, too (with the package jsonschema of PyPI).

The packages' types are made from the interfaces' official descriptions. The packages themselves take whatever comes; here a
field that is missing, has another type, or is none of a type's fields is a finding, but for the fields listed in EXTRA,
which are llama.cpp's. The server should be told --force-text with a file that holds a few words. The status is 1 where there
is a finding.
"""
import json
import sys
import urllib.parse
import urllib.request

import pydantic
from anthropic.types import Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

# What is shown beside the interfaces' own fields, and where.
EXTRA = {"timings", "prompt_progress", "meta", "reasoning_content"}
USER = [{"role": "user", "content": "Say something about the weather in Rome."}]
TOOL = {"name": "weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]}}
TOOLS = [{"type": "function", "function": TOOL}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}, "required": ["a"],
          "additionalProperties": False}
MORE = {"timings_per_token": True, "return_progress": True}
CHAT = {"model": "any", "messages": USER, "max_tokens": 12}
RESPONSE = {"model": "any", "input": "Say something.", "max_output_tokens": 12}
MESSAGE = {"model": "any", "messages": USER, "max_tokens": 12}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
CASES = [
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, "n": 2, "logprobs": True, "top_logprobs": 3, "stop": ["zz"], "seed": 1}),
    ("/v1/chat/completions", {**CHAT, "tools": TOOLS, "tool_choice": "required"}),
    ("/v1/chat/completions", {**CHAT, "response_format": FORMAT}),
    ("/v1/completions", {"model": "any", "prompt": "Once", "max_tokens": 8}),
    ("/v1/completions", {"model": "any", "prompt": ["Once", "Twice"], "max_tokens": 4, "logprobs": 2}),
    ("/v1/completions", {"model": "any", "prompt": ["Once", "Twice"], "max_tokens": 4, "echo": True}),
    ("/v1/responses", RESPONSE),
    ("/v1/responses", {**RESPONSE, "top_logprobs": 2, "include": ["message.output_text.logprobs"]}),
    ("/v1/responses", {**RESPONSE, "max_output_tokens": 200, "tool_choice": "required",
                       "tools": [{"type": "function", "strict": False, **TOOL}]}),
    ("/v1/messages", MESSAGE),
    ("/v1/messages", {**MESSAGE, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ("/v1/messages", {**MESSAGE, "max_tokens": 200, "tool_choice": {"type": "any"}, "tools": [
        {"name": "weather", "description": "It.", "input_schema": TOOL["parameters"]}]}),
]
WHOLE = {"/v1/chat/completions": ChatCompletion, "/v1/completions": Completion, "/v1/responses": Response,
         "/v1/messages": Message}
EVENT = {"/v1/chat/completions": ChatCompletionChunk, "/v1/completions": Completion,
         "/v1/responses": ResponseStreamEvent, "/v1/messages": RawMessageStreamEvent}


# The schemas of OpenAI's document.
SCHEMA_OF = {"/v1/chat/completions": "CreateChatCompletionResponse", "/v1/completions": "CreateCompletionResponse",
             "/v1/responses": "Response", "/v1/models": "Model",
             "/v1/chat/completions (event)": "CreateChatCompletionStreamResponse",
             "/v1/completions (event)": "CreateCompletionResponse", "/v1/responses (event)": "ResponseStreamEvent"}


def with_null(schema):
    """What the document calls nullable, as JSON Schema says it."""
    if isinstance(schema, list):
        return [with_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: with_null(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


def judges(path):
    """For each kind of answer what its schema in the document objects to."""
    import jsonschema
    with open(path) as file:
        components = with_null(json.load(file)["components"])
    kinds = dict(SCHEMA_OF)
    for event in components["schemas"]["ResponseStreamEvent"]["anyOf"]:  # one by one: a union tells nothing of what is wrong
        name = event["$ref"].rsplit("/", 1)[1]
        for value in components["schemas"][name]["properties"]["type"]["enum"]:
            kinds["/v1/responses (event) " + value] = name
    return {kind: jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})
            for kind, name in kinds.items()}


def strangers(model, path=""):
    """Names of fields that a type does not have, wherever they stand."""
    found = []
    if isinstance(model, pydantic.BaseModel):
        found += [path + name for name in (model.model_extra or {}) if name not in EXTRA]
        for name in type(model).model_fields:
            found += strangers(getattr(model, name), f"{path}{name}.")
    elif isinstance(model, (list, tuple)):
        for one in model:
            found += strangers(one, path)
    return found


def check(kind, value):
    # Strict: "1" is no number and 1 is no text. Literals stay what the types say.
    try:
        return strangers(pydantic.TypeAdapter(kind).validate_json(json.dumps(value), strict=True))
    except pydantic.ValidationError as error:
        return [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()[:4]]


def ask(url, path, body, headers=None):
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer any", **(headers or {})})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read().decode()


def events_of(text):
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    document = judges(sys.argv[2]) if len(sys.argv) == 3 else {}
    url, n, n_judged, findings = sys.argv[1].rstrip("/"), 0, 0, []
    checked = [("/v1/models", Model, one) for one in json.loads(ask(url, "/v1/models", None))["data"]]
    checked += [("/v1/models", Model, json.loads(ask(url, "/v1/models/" + urllib.parse.quote(one["id"], safe=""), None)))
                for _, _, one in checked]
    checked += [("models", ModelInfo, one) for one in json.loads(
        ask(url, "/v1/models", None, {"anthropic-version": "2023-06-01"}))["data"]]
    count = {"model": "any", "messages": USER}
    checked.append(("count_tokens", MessageTokensCount, json.loads(ask(url, "/v1/messages/count_tokens", count))))
    for path, body in CASES:
        checked.append((path, WHOLE[path], json.loads(ask(url, path, body))))
        for more in ({}, MORE):
            stream = {**body, **more, "stream": True}
            if "chat" in path:
                stream["stream_options"] = {"include_usage": True}
            events = events_of(ask(url, path, stream))
            for one in events:
                if one.get("type") == "ping":  # of which Anthropic's package has no type
                    continue
                if path == "/v1/completions":  # what is null until the end, in OpenAI's streams too, has no null in the type
                    for choice in one["choices"]:
                        choice["finish_reason"] = choice["finish_reason"] or "stop"
                checked.append((path + " (event)", EVENT[path], one))
    for path, kind, value in checked:
        n += 1
        findings += [f"{path} {value.get('type', '')}: {problem}" for problem in check(kind, value)]
        judge = document.get(f"{path} {value.get('type', '')}") or document.get(path)
        if judge:
            n_judged += 1
            findings += [f"{path} {value.get('type', '')}, by the document: {'.'.join(map(str, error.path))}: "
                         f"{error.message[:300]}" for error in judge.iter_errors(value)]
    for finding in dict.fromkeys(findings):
        print(finding)
    print(f"{n} answers and events, {n_judged} of them by OpenAI's document too, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
