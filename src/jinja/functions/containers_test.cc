// Tests containers and tests with a table of templates and what they print, over one fixed context.
#include <gtest/gtest.h>

#include "jinja/render_support_test.h"

namespace troika::jinja {
namespace {

const Row kContainersRows[] = {
    {"{{ s[0] }}", "H"},
    {"{{ s[-1] }}", "d"},
    {"{{ s[1:4] }}", "ell"},
    {"{{ s[::-1] }}", "dlröW ,olleH"},
    {"{{ s[-3:] }}", "rld"},
    {"{{ s[:-3] }}", "Hello, Wö"},
    {"{{ s[8] }}", "ö"},
    {"{{ s[::2] }}", "Hlo öl"},
    {"{{ s[100] is defined }}", "False"},
    {"{{ l[5:] }}", "[]"},
    {"{{ l[-2:][::-1] }}", "[2, 1]"},
    {"{{ range(10)[::2] }}", "range(0, 10, 2)"},
    {"{{ range(10)[7:2:-2] | list }}", "[7, 5, 3]"},
    // The product of the steps leaves 64 bits here, and so do numbers of the range times its step.
    {"{{ range(0, 1, 4611686018427387904)[::4] | list }}", "[0]"},
    {"{{ range(0, 9, 2)[1::9223372036854775807] | list }}", "[2]"},
    {"{{ range(0, 9223372036854775807, 2305843009213693952)[::3] | list }}",
     "[0, 6917529027641081856]"},
    {"{{ range(-9223372036854775807, 9223372036854775807, 4611686018427387904)[-1] }}",
     "4611686018427387905"},
    {"{{ {'H': 5}[s[0:1]] }}", "5"},
    {"{{ {('H', 'e'): 5}[s[0:1], s[1:2]] }}", "5"},
    {"{{ [] or 'x' }}", "x"},
    {"{{ [1] == (1,) }}", "False"},
    {"{{ [] }}", "[]"},
    {R"({{ ["it's", 'q"', 'b\\n\n\t\x01é\u200b'] }})", R"(["it's", 'q"', 'b\\n\n\t\x01é\u200b'])"},
    {"{{ [none, true, 1.0, undefinedx] }}", "[None, True, 1.0, Undefined]"},
    {"{{ d.items() }}", "dict_items([('b', 1), ('a', [1, 2]), ('C', 'x')])"},
    {"{{ d.keys() }}", "dict_keys(['b', 'a', 'C'])"},
    {"{{ d.values() }}", "dict_values([1, [1, 2], 'x'])"},
    {"{{ d.get('b') }}", "1"},
    {"{{ d.get('q') }}", "None"},
    {"{{ d.get('q', 5) }}", "5"},
    // Dictionaries of more than eight entries have an index, from which a key is taken.
    {"{% set e = {} %}{% for i in range(12) %}{% set _ = e.setdefault(i, i * i) %}{% endfor %}"
     "{{ e.pop(3) }} {{ 3 in e }} {{ e[2] }} {{ e[4] }} {{ e[11] }}{% set _ = e.update([[3, 'n']]) "
     "%} {{ e[3] }} {{ e | length }}{% for i in [0, 11, 3, 6] %} {{ e.pop(i) }}{% endfor %} {{ e "
     "}}",
     "9 False 4 16 121 n 12 0 121 n 36 {1: 1, 2: 4, 4: 16, 5: 25, 7: 49, 8: 64, 9: 81, 10: 100}"},
    {"{{ d['b'] }}", "1"},
    {"{{ d.b }}", "1"},
    {"{{ d.zzz is defined }}", "False"},
    {"{{ d['zzz'] is defined }}", "False"},
    {"{{ l.0 }}", "3"},
    {"{{ l[0] }}", "3"},
    {"{{ l['x'] is defined }}", "False"},
    {"{{ nested.x.y[0].z }}", "5"},
    {"{{ {'items': 5}.items is callable }}", "True"},
    {"{{ {'items': 5}['items'] }}", "5"},
    {"{{ n is number }}", "True"},
    {"{{ f is float }}", "True"},
    {"{{ n is integer }}", "True"},
    {"{{ t is integer }}", "False"},
    {"{{ t is number }}", "True"},
    {"{{ t is boolean }}", "True"},
    {"{{ s is string }}", "True"},
    {"{{ l is sequence }}", "True"},
    {"{{ d is mapping }}", "True"},
    {"{{ d is sequence }}", "True"},
    {"{{ s is iterable }}", "True"},
    {"{{ n is iterable }}", "False"},
    {"{{ z is none }}", "True"},
    {"{{ z is iterable }}", "False"},
    {"{{ undefinedx is iterable }}", "True"},
    {"{{ undefinedx is sequence }}", "True"},
    {"{{ undefinedx is string }}", "False"},
    {"{{ d.items() is sequence }}", "False"},
    {"{{ range(3) is sequence }}", "True"},
    {"{{ 3 is odd }}", "True"},
    {"{{ 4 is even }}", "True"},
    {"{{ 9 is divisibleby 3 }}", "True"},
    {"{{ 9 is divisibleby(2) }}", "False"},
    {"{{ 1 is eq 1 }}", "True"},
    {"{{ 1 is equalto(2) }}", "False"},
    {"{{ 1 is lt 2 }}", "True"},
    {"{{ 2 is ge(3) }}", "False"},
    {"{{ 'a' is in 'abc' }}", "True"},
    {"{{ 1 is in [1] }}", "True"},
    {"{{ 1 is not in [1] }}", "False"},
    {"{{ 'a' is lower }}", "True"},
    {"{{ 'A' is upper }}", "True"},
    {"{{ 1 is sameas 1 }}", "True"},
    {"{{ true is true }}", "True"},
    {"{{ false is false }}", "True"},
    {"{{ 1 is true }}", "False"},
    {"{{ range is callable }}", "True"},
    {"{{ s is callable }}", "False"},
    {"{{ 'upper' is filter }}", "True"},
    {"{{ 'nope' is filter }}", "False"},
    {"{{ 'odd' is test }}", "True"},
    {"{{ s is not string }}", "False"},
    {"{{ z is not none and true }}", "False"},
    {"{{ [1,2] + [3] }}", "[1, 2, 3]"},
    {"{{ [0] * 3 }}", "[0, 0, 0]"},
    {"{{ [1,2] * 0 }}", "[]"},
    {"{{ {1: 2}[1] }}", "2"},
    {"{{ {(1,2): 3}[(1,2)] }}", "3"},
    {"{{ [[1,2],[3]][0][1] }}", "2"},
    {"{{ l[0:2] + l[2:] }}", "[3, 1, 2]"},
    {"{{ s is string and n is number or false }}", "True"},
    {"{{ not s is string }}", "False"},
    {"{{ n if n is defined and n is not none else 'x' }}", "7"},
    {"{{ [1,2] == [1,2] }}", "True"},
};

TEST(TemplateContainers, Print) {
  for (const auto& [source, expected] : kContainersRows) {
    EXPECT_EQ(render(source), expected) << source;
  }
}

}  // namespace
}  // namespace troika::jinja
