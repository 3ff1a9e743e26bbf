#include "jinja/functions/builtins.h"

#include <fmt/format.h>

#include <initializer_list>
#include <unordered_map>

#include "base/error.h"
#include "jinja/values/dict.h"

namespace troika::jinja {

namespace {

using Index = std::unordered_map<std::string_view, const Builtin*>;

// No built-in has a longer name. A template may look for a text of any length, which is not hashed.
constexpr size_t kLongestName = 32;

Index index_of(std::initializer_list<const Table*> tables) {
  Index index;
  for (const Table* table : tables) {
    for (const Builtin& builtin : *table) {
      TROIKA_ASSERT(std::string_view(builtin.name).size() <= kLongestName);
      index.emplace(builtin.name, &builtin);
    }
  }
  return index;
}

const Builtin* find_in(const Index& index, std::string_view name) {
  if (name.size() > kLongestName) {
    return nullptr;
  }
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

struct BoundMethod : Function {
  BoundMethod(const Builtin& b, Value o) : builtin(b), object(std::move(o)) {}
  Value call(Runtime& rt, Args& args) override {
    args.at.insert(args.at.begin(), object);
    return rt.call_builtin(&builtin, builtin.name, args);
  }
  std::string name() const override { return builtin.name; }
  const Builtin& builtin;
  const Value object;
};

struct GlobalFunction : Function {
  explicit GlobalFunction(const Builtin& b) : builtin(b) {}
  Value call(Runtime& rt, Args& args) override {
    return rt.call_builtin(&builtin, builtin.name, args);
  }
  std::string name() const override { return builtin.name; }
  const Builtin& builtin;
};

// Moves a named argument to its place. Returns false if no parameter has that name.
bool place_named(Runtime& rt, const Builtin& builtin, Args& args,
                 const std::vector<std::string_view>& names, std::string_view name, Value value) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      if (args.has(i)) {
        rt.fail(fmt::format("{}() has two values for '{}'", builtin.name, name));
      }
      args.at[i] = std::move(value);
      return true;
    }
  }
  return false;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const Index kIndex = index_of({&string_filters(), &markup_filters(), &number_filters(),
                                        &list_filters(), &select_filters()});
  return find_in(kIndex, name);
}

const Builtin* find_test(std::string_view name) {
  static const Index kIndex = index_of({&tests()});
  return find_in(kIndex, name);
}

const Builtin* find_global(std::string_view name) {
  static const Index kIndex = index_of({&globals()});
  return find_in(kIndex, name);
}

const Builtin* find_method(const Value& object, std::string_view name) {
  static const Index kString = index_of({&string_methods(), &string_search_methods()});
  static const Index kList = index_of({&list_methods()});
  static const Index kTuple = index_of({&tuple_methods()});
  static const Index kDict = index_of({&dict_methods()});
  static const Index kLoop = index_of({&loop_methods()});
  static const Index kCycler = index_of({&cycler_methods()});
  if (object.is_string()) {
    return find_in(kString, name);
  }
  if (!object.is_object()) {
    return nullptr;
  }
  switch (object.object()->shape) {
    case Shape::kList:
      return find_in(kList, name);
    case Shape::kTuple:
      return find_in(kTuple, name);
    case Shape::kDict:
      return find_in(kDict, name);
    case Shape::kLoop:
      return find_in(kLoop, name);
    case Shape::kCycler:
      return find_in(kCycler, name);
    default:
      return nullptr;
  }
}

void bind(Runtime& rt, const Builtin& builtin, Args& args) {
  std::vector<std::string_view> names;
  size_t n_required = 0;
  bool takes_rest = false;
  std::string_view rest = builtin.parameters;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    std::string_view name = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    if (name == "*") {
      takes_rest = true;
    } else if (name.back() == '?') {
      names.push_back(name.substr(0, name.size() - 1));
    } else {
      names.push_back(name);
      n_required = names.size();
    }
  }
  if (args.at.size() > names.size() && !takes_rest) {
    rt.fail(fmt::format("{}() takes at most {} values, not {}", builtin.name, names.size(),
                        args.at.size()));
  }
  if (args.at.size() < names.size()) {
    args.at.resize(names.size(), Value::missing());
  }
  if (!takes_rest) {
    for (auto& [name, value] : args.named) {
      if (!place_named(rt, builtin, args, names, name, std::move(value))) {
        rt.fail(fmt::format("{}() has no parameter '{}'", builtin.name, name));
      }
    }
    args.named.clear();
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (args.at[i].is_missing()) {
      rt.fail(fmt::format("{}() needs a value for '{}'", builtin.name, names[i]));
    }
  }
}

int64_t int_argument(Runtime& rt, const Args& args, size_t i, int64_t fallback) {
  if (!args.has(i)) {
    return fallback;
  }
  if (!args.at[i].is_integral()) {
    rt.require_defined(args.at[i]);
    rt.fail(fmt::format("a {} stands where an integer is needed", type_name(args.at[i])));
  }
  return args.at[i].as_int();
}

bool bool_argument(const Args& args, size_t i, bool fallback) {
  return args.has(i) ? truthy(args.at[i]) : fallback;
}

const std::string& string_argument(Runtime& rt, const Args& args, size_t i, const char* what) {
  if (!args.at[i].is_string()) {
    rt.require_defined(args.at[i]);
    rt.fail(fmt::format("{} must be a string, not a {}", what, type_name(args.at[i])));
  }
  return args.at[i].str();
}

Value bound_method(Runtime& rt, const Builtin& builtin, const Value& object) {
  return Value::of(rt.heap.make<BoundMethod>(builtin, object));
}

Value global_function(Runtime& rt, const Builtin& builtin) {
  return Value::of(rt.heap.make<GlobalFunction>(builtin));
}

}  // namespace troika::jinja
