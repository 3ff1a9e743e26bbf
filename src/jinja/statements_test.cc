// Tests statements with a table of templates and what they print, over one fixed context.
#include <gtest/gtest.h>

#include <string>

#include "jinja/render_support_test.h"

namespace troika::jinja {
namespace {

const Row kStatementsRows[] = {
    {"{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "4,2,3,1"},
    {"{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} "
     "{{ ns }}",
     "7 <Namespace {'a': 7}>"},
    {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
     "loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ "
     "loop.cycle('a','b') }}{{ loop.changed(i > 2) }}|{% else %}none{% endfor %}",
     "1032TrueFalse31aTrue|2121FalseFalse332bTrue|3210FalseTrue31aFalse|"},
    {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
     "b=1;a=[1, 2];C=x;baC"},
    {"{% for m in ms if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {{ m.n }} {% endfor "
     "%}",
     "1/2 2 2/2 3 "},
    {"{% for x in tree recursive %}{{ x.n }}@{{ loop.depth }}[{{ loop(x.ch) }}]{% endfor %}",
     "1@1[2@2[]3@2[4@3[]]]"},
    {"{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=5) }} "
     "{{ m(b=3, a=4) }} {{ m() }}",
     "1-2-x 1-2-5 4-3-x -2-x"},
    {"{% macro m(a) %}{{ a }} {{ varargs }} {{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
     "1 (2, 3) {'x': 4}"},
    {"{% macro box(t) %}<{{ t }}>{{ caller(5) }}</{{ t }}>{% endmacro %}{% call(q) box('b') %}in "
     "{{ q }}{% endcall %}",
     "<b>in 5</b>"},
    {"{% macro box() %}{{ caller is defined }}{% endmacro %}{{ box() }}", "False"},
    {"{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a','b')|upper %}banana{% "
     "endfilter %}",
     "ABC HELLO, WÖRLDBBNBNB"},
    {"{% set b %}  x {{ n }} {% endset %}[{{ b }}]{% set c | trim | upper %}  yy {% endset %}[{{ c "
     "}}]",
     "[  x 7 ][YY]"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}{% set t = 1, 2, %}{{ "
     "t }}",
     "1221(1, 2)"},
    {"{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  a  {%- endraw -%} b",
     "{{ x }} {% if %}|ab"},
    {"a {#- c -#} b {# d #} c", "ab  c"},
    {"  {% if t %}\n  yes\n  {% endif %}\n  no {% if t -%}   x   {%- endif %} y\n{%+ if t %} z {% "
     "endif +%}\nend\n",
     "  yes\n  no x y\n z \nend"},
    {"{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i > 6 %}{% break %}{% "
     "endif %}{{ i }}{% endfor %}",
     "012456"},
    {"{% for x in [1, 2, 3] %}{% set y %}a{% if x == 2 %}{% break %}{% endif %}b{% endset %}{{ y "
     "}}{% endfor %}",
     "ab"},
    {"{% for x in [1, 2, 3] %}{% filter upper %}a{% if x == 2 %}{% break %}{% endif %}b{% "
     "endfilter "
     "%}{% endfor %}",
     "AB"},
    {"{% for x in [1, 2] %}{% set y | upper %}{% if x == 1 %}{% continue %}{% endif %}z{% endset "
     "%}[{{ y }}]{% endfor %}",
     "[Z]"},
    {"{% set ns = namespace(y='-') %}{% for x in [1, 2] %}{% set ns.y %}a{% for z in [3, 4] %}{{ z "
     "}}{% break %}{% endfor %}{% if x == 2 %}{% break %}{% endif %}b{% endset %}{% endfor %}{{ "
     "ns.y }}",
     "a3b"},
    {"{% generation %}{% set q = 5 %}{{ q }}{% endgeneration %}{{ q is defined }}", "5False"},
    {"{% with a = 1, b = n %}{{ a + b }}{% endwith %}{{ a is defined }}", "8False"},
    {"{% for g in ms|groupby('role') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}{% for k, v "
     "in ms|groupby('role') %}{{ k }}{{ v|map(attribute='n')|list }}{% endfor %}{{ ms|groupby('c', "
     "default='zz')|map(attribute='grouper')|list }}",
     "assistant:1;user:2;assistant[1]user[2, 3]['a', 'B', 'zz']"},
    {"{{ namespace(a=1).a }} {{ dict(a=1, b=2) }} {{ dict([('x',1)], y=2) }} {% set c = "
     "cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }} {% set j = "
     "joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c",
     "1 {'a': 1, 'b': 2} {'x': 1, 'y': 2} abab a|b|c"},
    {"{% set ns = namespace() %}{% set ns.x = 5 %}{{ ns.x }}{{ ns.y is defined }}{{ ns['x'] }}",
     "5False5"},
    {"{% if l and d %}a{% elif n %}b{% else %}c{% endif %}{% if not l %}a{% elif n == 8 %}b{% else "
     "%}c{% endif %}",
     "ac"},
    {"{% set x = [] %}{{ x.append(1) }}{% set _ = x.append(2) %}{{ x }}{{ x.pop() }}{{ x }}{{ "
     "x.extend([5,6]) }}{{ x.insert(0, 9) }}{{ x }}{{ x.index(5) }}{{ x.count(9) }}{{ x.remove(9) "
     "}}{{ x }}{{ x.reverse() }}{{ x }}",
     "None[1, 2]2[1]NoneNone[9, 1, 5, 6]21None[1, 5, 6]None[6, 5, 1]"},
    {"{% set x = {} %}{{ x.update({'a':1}) }}{{ x.update(b=2) }}{{ x }}{{ x.pop('a') }}{{ "
     "x.pop('q', 7) }}{{ x.setdefault('z', 3) }}{{ x }}{{ x.copy() }}",
     "NoneNone{'a': 1, 'b': 2}173{'b': 2, 'z': 3}{'b': 2, 'z': 3}"},
    {"{%- macro f(x) -%}{%- if x > 0 -%}{{ x }},{{ f(x - 1) }}{%- endif -%}{%- endmacro -%}{{ f(5) "
     "}}",
     "5,4,3,2,1,"},
    {"{% macro o() %}{{ v }}{% endmacro %}{% set v = 3 %}{{ o() }}{% set v = 4 %}{{ o() }}", "34"},
    {"{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
     "1231;1232;1233;"},
    {"{% for i in l %}{% if loop.first %}{% set q = i %}{% endif %}{{ q is defined }}{% endfor %}",
     "TrueFalseFalse"},
    {"{% set x = l|map('int') %}{% for i in x %}{{ i }}{% endfor %}{% for i in x %}{{ i }}{% "
     "endfor %}|{{ x|list }}",
     "312|[]"},
    {"{% block foo %}b{{ n }}{% endblock %}{% block bar scoped %}{% endblock bar %}", "b7"},
    {"{% for x in 'añb' %}{{ x }}.{% endfor %}{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }}{% "
     "endfor %}{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
     "a.ñ.b.1234123"},
    {"{% print 5 %}{% for i in 1, 2 %}{{ i }}{% endfor %}{{ 1, 2 }}{{ (1, 2) }}",
     "512(1, 2)(1, 2)"},
    {"a\n\n{% if t %}\n\nb\n\n{% endif %}\n\nc", "a\n\n\nb\n\n\nc"},
    {"{%- if t -%}\n  x\n{%- endif -%}\n   y {{- ' z ' -}}   w\n{{ 'tail' }}\n", "xy z w\ntail"},
    {"{{ 1000000 * 1000000 * 1000000 }} {{ 10 ** 18 }} {{ 5 % 3.5 }} {{ 2 ** 0.5 }} {{ 0.1 + 0.2 "
     "}} {{ 1/3 }} {{ 100.0 }} {{ 1e22 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}\n",
     "1000000000000000000 1000000000000000000 1.5 1.4142135623730951 0.30000000000000004 "
     "0.3333333333333333 100.0 1e+22 5e-324 1.7976931348623157e+308"},
};

// A scope with more variables than it scans finds the first, the last and an overwritten one.
TEST(TemplateStatements, ManyVariables) {
  std::string source;
  for (int i = 0; i < 300; ++i) {
    source += "{% set v" + std::to_string(i) + " = " + std::to_string(i) + " %}";
  }
  source += "{% set v17 = 'x' %}{{ v0 }} {{ v16 }} {{ v17 }} {{ v299 }} {{ v300 is defined }}";
  EXPECT_EQ(render(source), "0 16 x 299 False");
}

TEST(TemplateStatements, Print) {
  for (const auto& [source, expected] : kStatementsRows) {
    EXPECT_EQ(render(source), expected) << source;
  }
}

}  // namespace
}  // namespace troika::jinja
