// Python's ways to lay out values: '%5.2f' % x, '{:>5}'.format(x), and the specification behind the
// colon, which both share.
#pragma once

#include <string>

#include "jinja/runtime.h"

namespace troika::jinja {

struct FormatSpec {
  std::string fill = " ";  // has one character
  char align = '\0';       // < > ^ = or none
  char sign = '-';         // - + or space
  bool alternate = false;
  char group = '\0';  // , or _
  bool zero = false;  // a 0 in front of the width: numbers are padded behind their sign
  size_t width = 0;
  int precision = -1;
  char type = '\0';
};

// These are the widest field and the most digits: both limits keep a template from asking for a
// gigabyte of padding.
inline constexpr size_t kWidestField = 1'000'000;
inline constexpr int kMostDigits = 400;

// Counts the steps of writing a number with this many digits behind the point. More digits than a
// double has are computed with large integers, which takes a thousand times as long.
void step_digits(Runtime& rt, double d, int precision);

// Reads what stands behind the colon of a {} field.
FormatSpec parse_spec(Runtime& rt, const std::string& text);
std::string format_value(Runtime& rt, const Value& v, const FormatSpec& spec);
std::string format_number(Runtime& rt, const Value& v, const FormatSpec& spec);
std::string pad(Runtime& rt, std::string text, const FormatSpec& spec, char default_align);

// Returns what format % arguments gives.
Value format_percent(Runtime& rt, const Value& format, const Value& arguments);
// Returns what format.format(...) gives: args.at[0] is the format.
Value format_braces(Runtime& rt, const Args& args);

}  // namespace troika::jinja
