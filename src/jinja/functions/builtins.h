// The tables of filters, tests, methods and global functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/runtime.h"

namespace troika::jinja {

// A built-in. `parameters` names what the function takes, in order, with "?" behind what may be
// left out. The first one is the filtered or tested value, or the object of a method. "*" takes the
// rest as it comes, positional and named. Otherwise args.at has one value for each parameter,
// missing or given.
struct Builtin {
  const char* name;
  const char* parameters;
  Value (*function)(Runtime& rt, Args& args);
};

using Table = std::vector<Builtin>;

// Return null if there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(const Value& object, std::string_view name);
const Builtin* find_global(std::string_view name);

// There is one table for each file of built-ins.
const Table& string_filters();
const Table& markup_filters();
const Table& number_filters();
const Table& list_filters();
const Table& select_filters();
const Table& tests();
const Table& string_methods();
const Table& string_search_methods();
const Table& list_methods();
const Table& tuple_methods();
const Table& dict_methods();
const Table& loop_methods();
const Table& cycler_methods();
const Table& globals();

// Puts arguments in the order of the builtin's parameters, or throws an error that names it.
void bind(Runtime& rt, const Builtin& builtin, Args& args);

// Fills a dictionary with what dict(...), namespace(...) and dict.update(...) take: a dictionary or
// pairs at `i`, if given, and the named arguments.
void fill_dict(Runtime& rt, Dict& dict, const Args& args, size_t i);

// Return arguments as C++ values; errors name what was expected.
int64_t int_argument(Runtime& rt, const Args& args, size_t i, int64_t fallback);
bool bool_argument(const Args& args, size_t i, bool fallback);
const std::string& string_argument(Runtime& rt, const Args& args, size_t i, const char* what);

// Returns a builtin with its object as a value: this is what d.items is without a call.
Value bound_method(Runtime& rt, const Builtin& builtin, const Value& object);
Value global_function(Runtime& rt, const Builtin& builtin);

}  // namespace troika::jinja
