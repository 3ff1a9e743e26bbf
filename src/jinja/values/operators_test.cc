// Tests literals and operators with a table of templates and what they print, over one fixed
// context.
#include <gtest/gtest.h>

#include "jinja/render_support_test.h"

namespace troika::jinja {
namespace {

const Row kOperatorsRows[] = {
    {"{{ 7 // 2 }}", "3"},
    {"{{ -7 // 2 }}", "-4"},
    {"{{ 2 ** 10 }}", "1024"},
    {"{{ 2 ** -1 }}", "0.5"},
    {"{{ 7 / 2 }}", "3.5"},
    {"{{ 1e20 }}", "1e+20"},
    // Schemas of tools name the largest of unsigned types, which becomes a float.
    {"{{ '[9223372036854775807]' | from_json }}", "[9223372036854775807]"},
    {"{{ '[18446744073709551615]' | from_json }}", "[1.8446744073709552e+19]"},
    {"{{ 1e16 }}", "1e+16"},
    {"{{ 123456789012345.0 }}", "123456789012345.0"},
    {"{{ 1e-5 }}", "1e-05"},
    {"{{ 0.0001 }}", "0.0001"},
    {"{{ -0.0 }}", "-0.0"},
    {"{{ 1.5 // 0.4 }}", "3.0"},
    {"{{ 6 / 3 }}", "2.0"},
    {"{{ -2 ** 2 }}", "4"},
    {"{{ 2 ** 3 ** 2 }}", "64"},
    {"{{ 1 < 2 < 3 }}", "True"},
    {"{{ 1 < 3 < 2 }}", "False"},
    {"{{ 1 == 1.0 }}", "True"},
    {"{{ true == 1 }}", "True"},
    {"{{ 'a' in s }}", "False"},
    {"{{ 'H' in s }}", "True"},
    {"{{ 3 not in l }}", "False"},
    {"{{ 'b' in d }}", "True"},
    {"{{ not 1 }}", "False"},
    {"{{ 1 and 0 or 5 }}", "5"},
    {"{{ undefinedx == undefinedy }}", "True"},
    {"{{ undefinedx in l }}", "False"},
    {"{{ (1,2) < (1,3) }}", "True"},
    {"{{ 'a' if z else 'b' }}", "b"},
    {"{{ 'a' if z }}", ""},
    {"{{ 1 if 0 else 2 if 0 else 3 }}", "3"},
    {"{{ s ~ n ~ f ~ z ~ t ~ undefinedx ~ l }}", "Hello, Wörld72.5NoneTrue[3, 1, 2]"},
    {"{{ 'a' 'b' }}", "ab"},
    {R"({{ "q\"\n\t\x41\u00e9" }})", "q\"\n\011Aé"},
    {"{{ l }}", "[3, 1, 2]"},
    {"{{ d }}", "{'b': 1, 'a': [1, 2], 'C': 'x'}"},
    {"{{ (1,) }}", "(1,)"},
    {"{{ () }}", "()"},
    {"{{ {} }}", "{}"},
    {R"({{ "it's" }})", "it's"},
    {"{{ range(3) }}", "range(0, 3)"},
    {R"({{ "it's x".title() }})", "It'S X"},
    {R"({{ "they're bill's".title() }})", "They'Re Bill'S"},
    {"{{ (1,) + (2,) }}", "(1, 2)"},
    {"{{ 'ab' * 3 }}", "ababab"},
    {"{{ 3 * 'x' }}", "xxx"},
    {"{{ true + true }}", "2"},
    {"{{ -true }}", "-1"},
    {"{{ +5 }}", "5"},
    {"{{ 1_000 }}", "1000"},
    {"{{ 0x1F }}", "31"},
    {"{{ 0b101 }}", "5"},
    {"{{ 0o17 }}", "15"},
    {"{{ 1.5e3 }}", "1500.0"},
    {"{{ 1e3 }}", "1000.0"},
    {"{{ 10 }}", "10"},
    {"{{ {'a': {}}}}", "{'a': {}}"},
    {"{{ 5 == '5' }}", "False"},
    {"{{ none == false }}", "False"},
    {"{{ '' == none }}", "False"},
    {"{{ {'a':1} == {'a':1.0} }}", "True"},
    {"{{ 'a' < 'b' }}", "True"},
    {"{{ 1 < 1.5 }}", "True"},
    {"{{ 10000000000000001 == 10000000000000000.0 }}", "False"},
};

TEST(TemplateOperators, Print) {
  for (const auto& [source, expected] : kOperatorsRows) {
    EXPECT_EQ(render(source), expected) << source;
  }
}

}  // namespace
}  // namespace troika::jinja
