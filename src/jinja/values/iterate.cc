#include <fmt/format.h>

#include "jinja/runtime.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {

std::vector<Value> chars_of(Runtime& rt, const Value& s) {
  std::vector<Value> items;
  const std::string& text = s.str();
  rt.heap.expect(s.text().n_chars * sizeof(Value));
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    utf8_next(text, i);
    items.push_back(rt.text(text.substr(begin, i - begin), s.is_safe()));
  }
  return items;
}

std::vector<Value> object_items(Runtime& rt, const Value& v) {
  std::vector<Value> items;
  switch (v.object()->shape) {
    case Shape::kList:
    case Shape::kTuple:
    case Shape::kView:
      return v.sequence().items;
    case Shape::kIterator: {
      Sequence& iterator = v.sequence();
      items.assign(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.n_taken),
                   iterator.items.end());
      iterator.n_taken = iterator.items.size();
      return items;
    }
    case Shape::kRange:
      items.reserve(static_cast<size_t>(v.range().n));
      for (int64_t i = 0; i < v.range().n; ++i) {
        items.push_back(v.range().at(i));
      }
      return items;
    case Shape::kDict:
      items.reserve(v.dict().entries.size());
      for (const auto& [key, value] : v.dict().entries) {
        items.push_back(key);
      }
      return items;
    default:
      rt.fail(fmt::format("a {} cannot be gone through", type_name(v)));
  }
}

}  // namespace

std::vector<Value> items_of(Runtime& rt, const Value& v) {
  if (v.is_undefined()) {
    return {};
  }
  if (v.is_string()) {
    return chars_of(rt, v);
  }
  if (!v.is_object()) {
    rt.fail(fmt::format("a {} cannot be gone through", type_name(v)));
  }
  if (const int64_t n = length_of(v); n > 0) {
    rt.heap.step(static_cast<uint64_t>(n));
    rt.heap.expect(static_cast<size_t>(n) * sizeof(Value));
  }
  return object_items(rt, v);
}

int64_t length_of(const Value& v) {
  if (v.is_undefined()) {
    return 0;
  }
  if (v.is_string()) {
    return static_cast<int64_t>(v.text().n_chars);
  }
  if (v.is_list_or_tuple() || v.is(Shape::kView)) {
    return static_cast<int64_t>(v.sequence().items.size());
  }
  if (v.is(Shape::kDict)) {
    return static_cast<int64_t>(v.dict().entries.size());
  }
  if (v.is(Shape::kLoop)) {
    return -1;
  }
  return v.is(Shape::kRange) ? v.range().n : -1;
}

}  // namespace troika::jinja
