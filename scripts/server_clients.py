#!/usr/bin/env python3
"""Has an unmodified client talk with a server, and says what of it works.

Usage: scripts/server_clients.py openai|anthropic|langchain-openai|instructor|llm [URL]    in a venv with that package

Six things are tried: a stream, a call of a tool that is required, an answer in a schema's form, usage, an error, and a stream
that the client leaves, whose answer the server must not go on with. The model may be any that is given tools; the server
needs no options. The status is 1 where something does not work.
"""
import os
import re
import sys
import tempfile
import time
import urllib.request

URL = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8080"
V1 = URL + "/v1"
QUESTION = "What is the weather in Rome?"
USER = [{"role": "user", "content": QUESTION}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"],
        "additionalProperties": False}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": CITY}
TOO_LONG = "word " * 200_000  # for any context
LONG = {"max_tokens": 400}


def n_cancelled():
    text = urllib.request.urlopen(URL + "/metrics").read().decode()
    return float(re.search(r"^\S*cancelled_total (\S+)", text, re.M).group(1))


def leaves(begin, close=lambda stream: stream.close()):
    """Reads the first part of a stream, leaves, and waits until the server has noticed."""
    before = n_cancelled()
    stream = begin()
    next(iter(stream))
    close(stream)
    for _ in range(100):
        if n_cancelled() > before:
            return
        time.sleep(0.1)
    raise AssertionError("the server went on with the answer")


def is_short(n_tokens):
    return 0 < n_tokens <= 12


def raises(kind, call):
    try:
        call()
    except kind as error:
        assert len(str(error)) > 20, error
        return
    raise AssertionError("no error came")


def openai_client():
    import openai

    client = openai.OpenAI(base_url=V1, api_key="any", max_retries=0)

    def ask(**more):
        return client.chat.completions.create(model="any", **{"messages": USER, "max_tokens": 12, **more})

    def stream():
        parts = list(ask(stream=True, stream_options={"include_usage": True}))
        assert sum(len(p.choices) for p in parts) > 1 and is_short(parts[-1].usage.completion_tokens), parts

    def tool():
        call = ask(max_tokens=100, tools=[{"type": "function", "function": FUNCTION}], tool_choice="required")
        assert call.choices[0].message.tool_calls[0].function.name == "weather", call

    def schema():
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
        assert '"city"' in ask(max_tokens=100, response_format=form).choices[0].message.content

    def usage():
        assert is_short(ask().usage.completion_tokens)

    return {"stream": stream, "tool": tool, "schema": schema, "usage": usage,
            "error": lambda: raises(openai.BadRequestError, lambda: ask(messages=[{"role": "user", "content": TOO_LONG}])),
            "leave": lambda: leaves(lambda: ask(stream=True, **LONG))}


def anthropic_client():
    import anthropic

    client = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)

    def ask(**more):
        return client.messages.create(model="any", **{"messages": USER, "max_tokens": 12, **more})

    def stream():
        with client.messages.stream(model="any", messages=USER, max_tokens=12) as parts:
            assert len(list(parts.text_stream)) > 1
            assert is_short(parts.get_final_message().usage.output_tokens)

    def tool():
        tools = [{"name": "weather", "description": "It.", "input_schema": CITY}]
        answer = ask(max_tokens=100, tools=tools, tool_choice={"type": "any"})
        assert [b for b in answer.content if b.type == "tool_use"][0].name == "weather", answer

    def schema():
        answer = ask(max_tokens=100, extra_body={"output_config": {"format": {"type": "json_schema", "schema": CITY}}})
        assert '"city"' in answer.content[0].text

    def usage():
        assert is_short(ask().usage.output_tokens)
        assert client.messages.count_tokens(model="any", messages=USER).input_tokens > 3

    return {"stream": stream, "tool": tool, "schema": schema, "usage": usage,
            "error": lambda: raises(anthropic.BadRequestError, lambda: ask(messages=[{"role": "user", "content": TOO_LONG}])),
            "leave": lambda: leaves(lambda: ask(stream=True, **LONG))}


def langchain_client():
    import openai
    from langchain_openai import ChatOpenAI

    def model(**more):
        return ChatOpenAI(model="any", base_url=V1, api_key="any", max_retries=0, **{"max_tokens": 12, **more})

    def tool():
        bound = model(max_tokens=100).bind_tools([{"type": "function", "function": FUNCTION}], tool_choice="required")
        assert bound.invoke(QUESTION).tool_calls[0]["name"] == "weather"

    def schema():
        named = {"title": "City", "description": "A city.", **CITY}
        assert "city" in model(max_tokens=100).with_structured_output(named, method="json_schema").invoke(QUESTION)

    def stream():
        assert len(list(model().stream(QUESTION))) > 1

    def usage():
        assert is_short(model().invoke(QUESTION).usage_metadata["output_tokens"])

    return {"stream": stream, "tool": tool, "schema": schema, "usage": usage,
            "error": lambda: raises(openai.BadRequestError, lambda: model().invoke(TOO_LONG)),
            "leave": lambda: leaves(lambda: model(**LONG).stream(QUESTION))}


def instructor_client():
    import instructor
    import openai
    import pydantic

    class City(pydantic.BaseModel):
        model_config = {"extra": "forbid"}
        city: str = pydantic.Field(max_length=8)

    plain = openai.OpenAI(base_url=V1, api_key="any", max_retries=0)

    def of(mode, how="create", **more):
        client = instructor.from_openai(plain, mode=mode)
        wanted = {"model": "any", "messages": USER, "response_model": City, "max_tokens": 100, "max_retries": 0, **more}
        return getattr(client.chat.completions, how)(**wanted)

    def stream():
        assert list(of(instructor.Mode.TOOLS, "create_partial"))[-1].city is not None

    def usage():
        assert of(instructor.Mode.TOOLS, "create_with_completion")[1].usage.completion_tokens > 0

    def wrong():
        return of(instructor.Mode.TOOLS, messages=[{"role": "user", "content": TOO_LONG}])

    def tool():
        assert isinstance(of(instructor.Mode.TOOLS), City)

    def schema():
        assert isinstance(of(instructor.Mode.JSON_SCHEMA), City)

    def begin():  # what streams here is the client that instructor wraps
        return plain.chat.completions.create(model="any", messages=USER, stream=True, **LONG)

    return {"stream": stream, "tool": tool, "schema": schema, "usage": usage,
            "error": lambda: raises(Exception, wrong), "leave": lambda: leaves(begin)}


def llm_client():
    folder = tempfile.mkdtemp()
    os.environ["LLM_USER_PATH"] = folder
    with open(folder + "/extra-openai-models.yaml", "w", encoding="utf-8") as file:
        file.write(f"- {{model_id: troika, model_name: any, api_base: \"{V1}\", supports_schema: true, supports_tools: true}}\n")
    import llm

    model = llm.get_model("troika")
    model.key = "any"

    def weather(city: str) -> str:
        "The weather of a city."
        return "sun"

    def tool():
        answer = model.prompt(QUESTION, tools=[weather], max_tokens=60, stream=False)
        answer.text()  # whether it calls the tool is the model's choice: this client cannot require it
        assert answer.response_json is not None

    def schema():
        assert '"city"' in model.prompt(QUESTION, schema=CITY, max_tokens=100, stream=False).text()

    def stream():
        assert len(list(model.prompt(QUESTION, max_tokens=12))) > 1

    def reads_a_part_and_ends():  # as a person does who stops the program
        child = os.fork()
        if child == 0:
            next(iter(model.prompt(QUESTION, **LONG)))
            os._exit(0)
        os.waitpid(child, 0)
        return "left"

    def usage():
        answer = model.prompt(QUESTION, max_tokens=12, stream=False)
        answer.text()
        assert is_short(answer.usage().output)

    return {"stream": stream, "tool": tool, "schema": schema, "usage": usage,
            "error": lambda: raises(Exception, lambda: model.prompt(TOO_LONG, max_tokens=12).text()),
            "leave": lambda: leaves(reads_a_part_and_ends, lambda stream: None)}


CLIENTS = {"openai": openai_client, "anthropic": anthropic_client, "langchain-openai": langchain_client,
           "instructor": instructor_client, "llm": llm_client}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in CLIENTS:
        sys.exit(__doc__)
    n_failed = 0
    for name, check in CLIENTS[sys.argv[1]]().items():
        try:
            check()
            outcome = "works"
        except Exception as error:  # whatever a client throws is what a person would see
            outcome = f"FAILED: {type(error).__name__}: {str(error)[:300]}"
            n_failed += 1
        print(f"{sys.argv[1]:<17} {name:<7} {outcome}")
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
