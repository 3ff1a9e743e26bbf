// The functions that every template finds by name.
#include <fmt/format.h>

#include <ctime>

#include "jinja/chat_template.h"
#include "jinja/functions/builtins.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

namespace {

Value range(Runtime& rt, Args& a) {
  for (size_t i = 0; i < 3; ++i) {
    if (a.has(i)) {
      int_argument(rt, a, i, 0);
    }
  }
  const bool one = !a.has(1);
  const int64_t first = one ? 0 : int_argument(rt, a, 0, 0);
  const int64_t stop = one ? int_argument(rt, a, 0, 0) : int_argument(rt, a, 1, 0);
  const int64_t step = int_argument(rt, a, 2, 1);
  if (step == 0) {
    rt.fail("the step of range() is zero");
  }
  auto* made = rt.heap.make<Range>(first, stop, step);
  if (made->n > rt.heap.limits().n_range) {
    rt.fail(fmt::format("range() of {} numbers, more than the {} allowed", made->n,
                        rt.heap.limits().n_range));
  }
  return Value::of(made);
}

Value dict(Runtime& rt, Args& a) {
  Value made = rt.heap.dict();
  fill_dict(rt, made.dict(), a, 0);
  return made;
}

Value make_namespace(Runtime& rt, Args& a) {
  auto* made = rt.heap.make<Dict>(Shape::kNamespace);
  fill_dict(rt, *made, a, 0);
  return Value::of(made);
}

Value cycler(Runtime& rt, Args& a) {
  if (a.at.empty()) {
    rt.fail("cycler() needs values to choose from");
  }
  rt.heap.take(a.at.size() * sizeof(Value));
  auto* made = rt.heap.make<Cycler>();
  made->items = a.at;
  return Value::of(made);
}

Value joiner(Runtime& rt, Args& a) {
  auto* made = rt.heap.make<Joiner>();
  made->separator = a.has(0) ? a.at[0] : rt.text(", ");
  return Value::of(made);
}

Value raise_exception(Runtime& rt, Args& a) {
  throw RaisedByTemplate(cut_message(to_str(rt, a.at[0])));
}

Value strftime_now(Runtime& rt, Args& a) {
  const std::string& format = string_argument(rt, a, 0, "the format of a time");
  if (format.size() > 1000) {
    rt.fail("the format of a time has more than 1000 characters");
  }
  rt.heap.step(4 * format.size());
  const auto now = static_cast<time_t>(rt.now_s());
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string out(64 * format.size() + 1, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  return rt.text(std::move(out));
}

}  // namespace

const Table& globals() {
  static const Table kTable = {
      {"range", "start stop? step?", range},
      {"dict", "*", dict},
      {"namespace", "*", make_namespace},
      {"cycler", "*", cycler},
      {"joiner", "sep?", joiner},
      {"raise_exception", "message", raise_exception},
      {"strftime_now", "format", strftime_now},
  };
  return kTable;
}

}  // namespace troika::jinja
