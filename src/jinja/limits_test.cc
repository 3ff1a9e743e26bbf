// Templates that never end, explode, or nest without bound end in an error that says so.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "jinja/chat_template.h"
#include "jinja/render_support_test.h"

namespace troika::jinja {
namespace {

Limits small() {
  Limits limits;
  limits.n_steps = 1'000'000;
  limits.memory_bytes = 4 << 20;
  limits.output_bytes = 1 << 20;
  return limits;
}

void expect_error(const std::string& source, const std::string& part) {
  const std::string result = render(source, small());
  EXPECT_EQ(result.rfind("error: ", 0), 0u) << source << "\n" << result.substr(0, 200);
  EXPECT_NE(result.find(part), std::string::npos) << source << "\n" << result.substr(0, 200);
}

std::string repeated(const std::string& what, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    out += what;
  }
  return out;
}

TEST(TemplateLimits, Steps) {
  const std::string loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
  expect_error(loops, "did not finish within 1000000 steps");
  expect_error("{% set l = [1] %}{% for i in range(999) %}{{ l.extend(l) or '' }}{% endfor %}",
               "chat template");
}

// Each of these loops does in one step what takes a second, unless what it goes through is counted.
const std::string kForever = "{% for i in range(9999) %}";

// A tuple that holds one tuple ten times, and so on 14 levels down, has ten to the 14th elements.
TEST(TemplateLimits, KeysThatHoldOneAnother) {
  std::string tuples = "{% set t = (1,1,1,1,1,1,1,1,1,1) %}";
  for (int i = 0; i < 14; ++i) {
    tuples += "{% set t = (t,t,t,t,t,t,t,t,t,t) %}";
  }
  expect_error(tuples + "{{ {t: 1} }}", "did not finish within 1000000 steps");
  expect_error(tuples + "{{ t in {1: 1} }}", "did not finish within 1000000 steps");
}

// NaN is the key of another entry each time, and all of them have one hash.
TEST(TemplateLimits, KeysOfOneHash) {
  expect_error("{% set d = {} %}{% set nan = 'nan' | float %}" + kForever +
                   "{% set _ = d.update([[nan, i]]) %}{% endfor %}",
               "did not finish within 1000000 steps");
}

TEST(TemplateLimits, LongKeys) {
  const std::string keys = "{% set a = 'x' * 999999 %}{% set b = 'x' * 999998 ~ 'y' %}";
  const std::string steps = "did not finish within 1000000 steps";
  expect_error(keys + "{% set d = {a: 1} %}" + kForever + "{% if d[b] %}{% endif %}{% endfor %}",
               steps);
  expect_error(keys + kForever + "{% if a is sameas b %}{% endif %}{% endfor %}", steps);
}

// Runs `body` again and again, with two long strings of the same characters.
void expect_counted(const std::string& body) {
  expect_error(
      "{% set a = 'X' ~ 'x' * 999998 %}{% set b = 'X' ~ 'x' * 999998 %}{% set c = 'x' * 99999 %}" +
          kForever + body + "{% endfor %}",
      "did not finish within 1000000 steps");
}

TEST(TemplateLimits, ComparedText) {
  expect_counted("{% if a == b %}{% endif %}");
  expect_counted("{% if a.startswith(b) %}{% endif %}");
  expect_counted("{% if a.endswith(b) %}{% endif %}");
  expect_counted("{% if a.startswith('y', end=999999) %}{% endif %}");
  expect_counted("{% if a.removeprefix(b) %}{% endif %}");
  expect_counted("{% if a.removesuffix(b) %}{% endif %}");
}

TEST(TemplateLimits, TextThatIsGoneThrough) {
  expect_counted("{% if a.isascii() %}{% endif %}");
  expect_counted("{% if a.isidentifier() %}{% endif %}");
  expect_counted("{% if a.istitle() %}{% endif %}");
  expect_counted("{% if a | int %}{% endif %}");
  expect_counted("{% if a | float %}{% endif %}");
  expect_counted("{% if 'y'.strip(c) %}{% endif %}");
}

TEST(TemplateLimits, TextThatIsCopied) {
  expect_counted("{% if 'y'.replace('z', a) %}{% endif %}");
  expect_counted("{% if 'y' | indent(a) %}{% endif %}");
  expect_counted("{% if 1 | tojson(indent=a) %}{% endif %}");
  expect_counted("{% if 1 | tojson(separators=(a, b)) %}{% endif %}");
  expect_counted("{% if '%.0s' % a %}{% endif %}");
}

// The digits of large and tiny numbers are computed with large integers.
TEST(TemplateLimits, Digits) {
  expect_counted("{% if '%f' % 1e300 %}{% endif %}");
  expect_counted("{% if '{:.300f}'.format(1.5) %}{% endif %}");
  expect_counted("{% if 1.7e308 | round(2) %}{% endif %}");
}

// The reader of JSON compares each key with those before it in its object.
TEST(TemplateLimits, JsonOfManyKeys) {
  const auto source = [](int n) {
    return "{% set l = [] %}{% for i in range(" + std::to_string(n) +
           ") %}{% do l.append('\"' ~ i ~ '\":0') %}{% endfor %}"
           "{{ ('{' ~ l | join(',') ~ '}') | from_json | length }}";
  };
  EXPECT_EQ(render(source(2000), small()), "2000");
  expect_error(source(2001), "an object of more than 2000 keys");
  Limits more_memory = small();
  more_memory.memory_bytes = 16 << 20;
  const std::string again = render(
      "{% set l = ['{'] %}{% for i in range(1999) %}{% do l.append('\"' ~ i ~ '\":0,') %}{% endfor "
      "%}"
      "{% set o = l | join ~ '\"x\":0}' %}" +
          kForever + "{% if o | from_json %}{% endif %}{% endfor %}",
      more_memory);
  EXPECT_NE(again.find("did not finish within 1000000 steps"), std::string::npos) << again;
  expect_error("{{ ('[' * 201 ~ ']' * 201) | from_json }}", "nested in more than 200 others");
  expect_error("{{ ('[' * 150000) | from_json }}", "holds more than");
}

// The decoded characters take four times the bytes of the string.
TEST(TemplateLimits, CharactersThatAreStripped) {
  expect_error("{{ 'y'.strip('x' * 1999999) }}", "holds more than 4 MiB");
}

TEST(TemplateLimits, ScopesThatAreLookedThrough) {
  expect_error(repeated("{% with a = 1 %}", 130) + kForever +
                   "{% if x or x or x or x or x or x or x or x %}{% endif %}{% endfor %}" +
                   repeated("{% endwith %}", 130),
               "did not finish within 1000000 steps");
}

// A macro keeps the variables of the scope that it is defined in.
TEST(TemplateLimits, VariablesThatMacrosKeep) {
  std::string body;
  for (int i = 0; i < 200; ++i) {
    body += "{% set v" + std::to_string(i) + " = 1 %}";
  }
  expect_error(kForever + body + "{% macro m() %}{% endmacro %}{% endfor %}", "holds more than");
}

TEST(TemplateLimits, Arguments) {
  const std::string steps = "did not finish within 1000000 steps";
  expect_counted("{% if [] | map('upper', **{a: 1}) %}{% endif %}");
  expect_error(
      "{% set l = [''] * 999 %}{% for i in range(9) %}"
      "{% if l | map('map', 'upper', *l) %}{% endif %}{% endfor %}",
      steps);
  expect_error(
      "{% set d = {} %}{% for i in range(4999) %}{% set _ = d.update([['k' ~ i, 1]]) %}"
      "{% endfor %}{{ ('{k4998}' * 9999).format(**d) }}",
      steps);
}

TEST(TemplateLimits, Memory) {
  expect_error(
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "holds more than 4 MiB");
  expect_error("{{ 'x' * 999999999999 }}", "holds more than");
  expect_error("{{ [1] * 999999999 }}", "holds more than");
  expect_error("{{ '%999999s' % 'x' ~ '%999999s' % 'x' ~ '%999999s' % 'x' ~ '%999999s' % 'x' }}",
               "holds more than");
  expect_error("{{ '%99999999s' % 'x' }}", "more than 1000000 characters");
  expect_error("{{ 'aaaa' * 9999 | replace('', 'x' * 9999) }}", "chat template");
}

// A dictionary that holds itself is written 200 times before that is an error.
TEST(TemplateLimits, DictionariesThatAreSorted) {
  Limits limits;
  limits.memory_bytes = 1 << 20;
  const std::string text = render(
      "{% set d = {} %}{% for i in range(2000) %}{% set _ = d.setdefault(i, i) %}{% endfor %}"
      "{% set _ = d.update([[-1, d]]) %}{{ d | tojson(sort_keys=true) }}",
      limits);
  EXPECT_NE(text.find("holds more than 1 MiB"), std::string::npos) << text.substr(0, 200);
}

TEST(TemplateLimits, Output) {
  expect_error("{% set s = 'x' * 1000 %}{% for i in range(2000) %}{{ s }}{% endfor %}",
               "writes more than 1 MiB");
}

TEST(TemplateLimits, Range) { expect_error("{{ range(1000000) }}", "range() of 1000000 numbers"); }

TEST(TemplateLimits, Recursion) {
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "call one another");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l | map(*(['map'] * 999)) | list }}",
               "call one another");
  expect_error("{% for x in [[[]]] recursive %}{{ loop([1]) }}{% endfor %}", "call one another");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested in itself");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "nested in itself");
  expect_error(
      "{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}"
      "{{ a == b }}",
      "nested in itself");
  expect_error("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "nested in itself");
}

TEST(TemplateLimits, Parser) {
  expect_error("{{ " + repeated("(", 9999) + "1" + repeated(")", 9999) + " }}", "nested");
  expect_error("{{ " + repeated("not ", 9999) + "1 }}", "nested");
  expect_error("{{ " + repeated("- ", 9999) + "1 }}", "nested");
  expect_error("{{ 1" + repeated(" + 1", 9999) + " }}", "more than 500 steps");
  expect_error("{{ x" + repeated(".a", 9999) + " }}", "more than 500 steps");
  expect_error(repeated("{% if 1 %}", 9999), "nested");
  expect_error("{% if 1 %}" + repeated("{% elif 1 %}", 9999) + "{% endif %}", "branches");
  // Each of 140 levels has 299 branches, and the next level is in the last one.
  expect_error(
      repeated("{% if 0 %}" + repeated("{% elif 0 %}", 298), 140) + repeated("{% endif %}", 140),
      "branches");
  expect_error("{{ " + std::string(1001, 'a') + " }}", "a name of more than 1000 bytes");
  expect_error(std::string((4 << 20) + 1, ' '), "has 4194305 bytes");
}

// Lists in lists are destroyed without recursion, and a list that others hold costs them nothing.
TEST(TemplateLimits, DeepValuesAreTakenDown) {
  EXPECT_EQ(render("{% set ns = namespace(l=[]) %}{% for i in range(20000) %}"
                   "{% set ns.l = [ns.l] %}{% endfor %}done"),
            "done");
}

TEST(TemplateLimits, DeepContext) {
  nlohmann::ordered_json deep;
  for (int i = 0; i < 1000; ++i) {
    deep = nlohmann::ordered_json::array({std::move(deep)});
  }
  nlohmann::ordered_json context;
  context["x"] = std::move(deep);
  EXPECT_THROW(ChatTemplate("{{ x }}").render(context), Error);
}

TEST(TemplateLimits, DefaultsAllowLongConversations) {
  nlohmann::ordered_json messages;
  for (int i = 0; i < 2000; ++i) {
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(2000, 'x')}});
  }
  const ChatTemplate chat_template(
      "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}");
  const std::string text = chat_template.render(messages, nullptr, {});
  EXPECT_GT(text.size(), 4'000'000u);
}

}  // namespace
}  // namespace troika::jinja
