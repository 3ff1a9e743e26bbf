// What a template or its caller does wrong becomes a sentence that names the line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "jinja/chat_template.h"
#include "jinja/render_support_test.h"

namespace troika::jinja {
namespace {

const Row kParseErrors[] = {
    {"{{ 1", "a tag has no end }} (line 1)"},
    {"a\nb {% if x %}", "should follow (line 2)"},
    {"{% endif %}", "unknown tag 'endif'"},
    {"{# never", "a comment has no end"},
    {"{% raw %} x", "has no {% endraw %}"},
    {"{{ 'abc }}", "a string has no end"},
    {"\n\n{{ a b }}", "expected }} but found 'b' (line 3)"},
    {"{% include 'x' %}", "asks for another file"},
    {"{% import 'x' as y %}", "asks for another file"},
    {"{% extends 'x' %}", "asks for another file"},
    {"{% set true = 1 %}", "'true' cannot be assigned to"},
    {"{% break %}", "stands in no loop"},
    {"{{ (1] }}", "']' closes nothing"},
    {"{{ a ? b }}", "unexpected character '?'"},
    {"{{ 99999999999999999999 }}", "too large"},
    {"{% macro m(a=1, b) %}{% endmacro %}", "without default"},
    {"{% nosuch %}", "unknown tag 'nosuch'"},
    {"{% call x %}{% endcall %}", "needs the call of a macro"},
    {"{{ x is }}", "expected the name of a test"},
    {"{{ l[0:1, 2] }}", "a slice stands beside another index"},
    {"{{ l[0, 1:2] }}", "a slice stands beside another index"},
    {"{{ f(a=1, 2) }}", "without a name follows"},
};

TEST(TemplateErrors, Parse) {
  for (const auto& [source, part] : kParseErrors) {
    const std::string result = render(source);
    EXPECT_EQ(result.rfind("error: The chat template cannot be read", 0), 0u) << result;
    EXPECT_NE(result.find(part), std::string::npos) << source << "\n" << result;
  }
}

const Row kRunErrors[] = {
    {"{{ u.x }}", "line 1: 'u' is undefined"},
    {"\n{{ d.q.x }}", "line 2: 'q' is undefined"},
    {"{{ u + 1 }}", "'u' is undefined"},
    {"{{ u() }}", "'u' is undefined"},
    {"{{ 1e22 | int }}", "leaves the range of 64 bits"},
    {"{{ 1 + 'a' }}", "'+' does not work between a int and a str"},
    {"{{ 1 / 0 }}", "division by zero"},
    {"{{ 1 // 0 }}", "division by zero"},
    {"{{ 1 % 0 }}", "division by zero"},
    {"{{ 9223372036854775807 + 1 }}", "64 bits"},
    {"{{ 10 ** 40 }}", "64 bits"},
    {"{{ 1 < 'a' }}", "have no order"},
    {"{{ 1 in 2 }}", "cannot be gone through"},
    {"{{ 1 in 'a' }}", "looks for a string"},
    {"{% for x in 5 %}{% endfor %}", "cannot be gone through"},
    {"{% for a, b in [1, 2] %}{% endfor %}", "cannot be gone through"},
    {"{% set a, b = [1] %}", "1 values are assigned to 2 names"},
    {"{{ u | nosuch }}", "no filter or test named 'nosuch'"},
    {"{{ u is nosuch }}", "no filter or test named 'nosuch'"},
    {"{{ u | tojson }}", "'u' is undefined"},
    {"{{ range | tojson }}", "cannot be written as JSON"},
    {"{{ {[]: 1} }}", "cannot be a key"},
    {"{% set s.x = 1 %}", "'s' is no namespace"},
    {"{{ s.split('') }}", "a separator is empty"},
    {"{{ s.nosuch() }}", "'nosuch' is undefined"},
    {"{{ range(-9223372036854775807, 9223372036854775807, 4611686018427387904)[::3] }}",
     "further apart than 64 bits"},
    {"{{ s[1:2:0] }}", "step of a slice is zero"},
    {"{{ '%d' % 'a' }}", "%d needs a number"},
    {"{{ '%s %s' % 'a' }}", "more places than values"},
    {"{{ '%s' % (1, 2) }}", "fewer places than values"},
    {"{{ '{' .format(1) }}", "without an end"},
    {"{{ '{:q}'.format(1) }}", "as 'q'"},
    {"{{ s | trim(1, 2) }}", "trim() takes at most 2 values"},
    {"{{ s | trim(bad=1) }}", "has no parameter 'bad'"},
    {"{{ s | replace('a') }}", "needs a value for 'new'"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "takes at most 1 values"},
    {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "has no parameter 'b'"},
    {"{{ loop.index }}", "'loop' is undefined"},
    {"{{ '[1' | from_json }}", "no JSON"},
    {"{{ l.pop(9) }}", "finds no item"},
    {"{{ 'a' * 1.5 }}", "'*' does not work"},
};

TEST(TemplateErrors, Run) {
  for (const auto& [source, part] : kRunErrors) {
    const std::string result = render(source);
    EXPECT_EQ(result.rfind("error: The chat template fails at line", 0), 0u) << result;
    EXPECT_NE(result.find(part), std::string::npos) << source << "\n" << result;
  }
}

TEST(TemplateErrors, TheTemplatesOwn) {
  EXPECT_EQ(render("{{ raise_exception('only ' ~ n ~ ' roles') }}"), "raised: only 7 roles");
  EXPECT_EQ(render("{% if n > 5 %}{{ raise_exception('no') }}{% endif %}"), "raised: no");
}

TEST(TemplateErrors, LongMessagesAreCut) {
  const std::string raised = render("{{ raise_exception('ä' * 99999) }}");
  EXPECT_EQ(raised.size(), std::string("raised: ...").size() + 4000);
  EXPECT_EQ(raised.substr(raised.size() - 5), "ä...");
  EXPECT_LT(render("{{ [1] | map('x' * 99999) | list }}").size(), 4100u);
}

TEST(TemplateErrors, Context) {
  const ChatTemplate chat_template("{{ messages | length }}{{ tools is defined }}{{ mood }}");
  EXPECT_THROW(chat_template.render(nlohmann::ordered_json::array()), Error);
  ChatOptions options;
  EXPECT_EQ(chat_template.render(nlohmann::ordered_json::array(), nullptr, options), "0False");
  options.extra_json = R"({"mood": "calm"})";
  EXPECT_EQ(chat_template.render(nlohmann::ordered_json::array(), nullptr, options), "0Falsecalm");
  options.extra_json = "[1]";
  EXPECT_THROW(chat_template.render(nlohmann::ordered_json::array(), nullptr, options), Error);
}

TEST(TemplateErrors, BytesThatAreNotText) {
  EXPECT_EQ(render("\xff{{ '\xc3' | length }}{{ '\xe2\x82' | upper }}"),
            "\xff"
            "1\xe2\x82");
  EXPECT_EQ(render("{{ '\xc3' | tojson }}{{ ('a\xf0\x9f' | list | length) }}"), "\"\xc3\"3");
}

TEST(TemplateTime, ComesFromTheCaller) {
  ChatTemplate chat_template("{{ strftime_now('%Y') }}");
  chat_template.set_time(1700000000);
  EXPECT_EQ(chat_template.render(nlohmann::ordered_json::object()), "2023");
}

}  // namespace
}  // namespace troika::jinja
