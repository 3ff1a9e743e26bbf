#include "grammar/schema/numbers/multiples.h"

#include <algorithm>
#include <numeric>

#include "grammar/schema/json_text.h"

namespace troika::grammar::schema {
namespace {

// These limit the rests of any division, and of one whose numbers are between bounds of few digits.
constexpr long kMostRests = 5000, kMostRestsBetween = 100'000;

}  // namespace

Multiples::Multiples(const Constraints& c, const Document& document, const Json& where, Pool* pool)
    : document_(document), where_(where), pool_(*pool) {
  const bool may_be_whole = (c.types & kInteger) != 0, may_be_part = (c.types & kFraction) != 0;
  std::vector<Json> of = c.multiples, not_of = c.not_multiples;
  if (!may_be_part) of.push_back(1);
  if (!may_be_whole) not_of.push_back(1);
  least_ = strictest(c.least, false);
  most_ = strictest(c.most, true);
  const auto see = [&](const Json& value) {
    n_places_ = std::max(n_places_, decimal_of(value, document_, where_).part.size());
  };
  std::for_each(of.begin(), of.end(), see);
  std::for_each(not_of.begin(), not_of.end(), see);
  // A number that need not be a multiple may have any number of places, those of a bound first.
  if (of.empty() && least_) see(least_->value);
  if (of.empty() && most_) see(most_->value);
  for (const Json& value : of) of_.push_back(scaled(value));
  for (const Json& value : not_of) not_of_.push_back(scaled(value));
  const auto join = [&](const std::vector<long>& list, long most) {
    long joined = 1;
    for (const long k : list) {
      joined = std::lcm(joined, k);
      if (joined > most) refuse();
    }
    return joined;
  };
  constexpr long kMostScaled = 1'000'000'000;
  if (!of_.empty()) of_ = {join(of_, kMostScaled)};
  drop_places();
  may_have_point_ = may_be_part && !are_whole();
  std::vector<long> all = of_;
  all.insert(all.end(), not_of_.begin(), not_of_.end());
  const auto is_short = [&](const std::optional<Bound>& bound) {
    constexpr size_t kShort = 8;
    return bound && decimal_of(bound->value, document_, where_).whole.size() + n_places_ <= kShort;
  };
  common_ = join(all, is_short(least_) && is_short(most_) ? kMostRestsBetween : kMostRests);
}

// Takes off last places in which all multiples have zeros.
void Multiples::drop_places() {
  const auto has_zero = [](long k) { return k % 10 == 0; };
  while (n_places_ > 0 && !of_.empty() && has_zero(of_.front()) &&
         std::all_of(not_of_.begin(), not_of_.end(), has_zero)) {
    --n_places_;
    of_.front() /= 10;
    for (long& k : not_of_) k /= 10;
  }
}

// Says whether all multiples are whole numbers.
bool Multiples::are_whole() const {
  if (of_.empty()) return false;
  long of = of_.front();
  size_t n_left = n_places_;
  for (; n_left > 0 && of % 10 == 0; --n_left) of /= 10;
  return n_left == 0;
}

void Multiples::refuse() const {
  document_.refuse(where_, "multipleOf", "the numbers to divide by have too many digits");
}

// Returns the number in units of the last place.
long Multiples::scaled(const Json& value) const {
  const Decimal d = decimal_of(value, document_, where_);
  const std::string digits = d.whole + d.part + std::string(n_places_ - d.part.size(), '0');
  const size_t first = digits.find_first_not_of('0');
  constexpr size_t kMostDigits = 10;
  if (digits.size() - first > kMostDigits) refuse();
  return std::stol(digits.substr(first));
}

std::optional<Bound> Multiples::strictest(const std::vector<Bound>& bounds, bool is_upper) const {
  std::optional<Bound> best;
  for (const Bound& bound : bounds) {
    if (!best) {
      best = bound;
      continue;
    }
    const Decimal a = decimal_of(bound.value, document_, where_);
    const Decimal b = decimal_of(best->value, document_, where_);
    int order = a.is_negative == b.is_negative ? compare_magnitudes(a, b) : 1;
    if (a.is_negative) order = -order;
    if (is_upper) order = -order;
    if (order > 0 || (order == 0 && bound.is_open)) best = bound;
  }
  return best;
}

// Returns a bound's digits. Digits behind the last place of multiples are cut off; then the number
// of the remaining digits is below the bound.
Multiples::Digits Multiples::digits_of(const Decimal& bound, bool is_open, bool is_upper) const {
  const bool is_cut = bound.part.size() > n_places_;
  std::string part = bound.part.substr(0, n_places_);
  part.append(n_places_ - part.size(), '0');
  return {bound.whole + part, is_cut ? !is_upper : is_open};
}

// Returns the digits of a bound of numbers, which is the greater one of magnitudes if `is_most`.
// Where numbers need not be multiples, digits may follow that take them to the edge of the bound.
Multiples::Digits Multiples::digits_at(const Bound& bound, bool is_upper, bool is_most) {
  const Edge edge = edge_of(bound, is_upper, document_, where_);
  if (!of_.empty()) return digits_of(edge.number, edge.is_open, is_most);
  if (bound.is_open) {
    JsonText text(&pool_, {});
    limits_.push_back(is_most ? text.magnitude_below(edge) : text.magnitude_above(edge));
  }
  return digits_of(decimal_of(bound.value, document_, where_), bound.is_open, is_most);
}

Expr Multiples::numbers() {
  const auto decimal = [&](const std::optional<Bound>& bound) {
    return bound ? decimal_of(bound->value, document_, where_) : Decimal{};
  };
  const Decimal low = decimal(least_), high = decimal(most_);
  std::vector<Expr> ways;
  if (!most_ || !high.is_negative) {
    ways.push_back(magnitudes(low.is_negative ? std::nullopt : least_, most_, false));
  }
  if (!least_ || low.is_negative || low.is_zero()) {
    const bool is_bound = most_ && (high.is_negative || high.is_zero());
    ways.push_back(pool_.literal("-", magnitudes(is_bound ? most_ : std::nullopt, least_, true)));
  }
  return pool_.any(ways);
}

// Returns the numbers without a sign whose magnitudes are between those of two numbers.
Expr Multiples::magnitudes(const std::optional<Bound>& least, const std::optional<Bound>& most,
                           bool is_negative) {
  low_ = {std::string(n_places_ + 1, '0'), false};
  high_.reset();
  limits_.clear();
  if (least) low_ = digits_at(*least, is_negative, false);
  if (most) high_ = digits_at(*most, !is_negative, true);
  wholes_.clear();
  parts_.clear();
  const size_t n_least = low_.text.size() - n_places_;
  if (!high_) {
    const bool is_from_zero = !low_.is_open && low_.text.find_first_not_of('0') == low_.text.npos;
    return is_from_zero ? any_length() : pool_.any(of_length(n_least), longer_than_least());
  }
  std::vector<Expr> ways;
  for (size_t n = n_least; n + n_places_ <= high_->text.size(); ++n) ways.push_back(of_length(n));
  return pool_.any(ways);
}

Expr Multiples::digit(int n) { return pool_.bytes(ByteSet::of(static_cast<uint8_t>('0' + n))); }

// Returns the numbers with this number of digits in front of the point.
Expr Multiples::of_length(size_t n_whole) {
  const size_t n = n_whole + n_places_;
  const State start{n, 0, n == low_.text.size(), high_ && n == high_->text.size()};
  std::vector<Expr> ways;
  for (int d = n_whole > 1 ? 1 : 0; d < 10; ++d) {
    const auto next = behind(start, d);
    if (next) ways.push_back(pool_.concat(digit(d), whole(*next)));
  }
  std::vector<Expr> all = limits_;
  all.push_back(pool_.any(ways));
  return pool_.all(all);
}

// Returns the numbers with more digits in front of the point than the lower bound has.
Expr Multiples::longer_than_least() {
  std::vector<Expr> ways;
  for (int d = 1; d < 10; ++d) {
    const Expr more = open_whole(low_.text.size() - n_places_, d % common_);
    ways.push_back(pool_.concat(digit(d), more));
  }
  return pool_.any(ways);
}

Expr Multiples::any_length() {
  std::vector<Expr> ways = {pool_.concat(digit(0), behind_whole(free_behind_point(0)))};
  for (int d = 1; d < 10; ++d) {
    ways.push_back(pool_.concat(digit(d), pool_.call(loop(d % common_))));
  }
  return pool_.any(ways);
}

// Returns at least so many digits in front of the point, and what may follow.
Expr Multiples::open_whole(size_t n_at_least, long rest) {
  if (n_at_least == 0) return pool_.call(loop(rest));
  const auto known = open_.find({n_at_least, rest});
  if (known != open_.end()) return known->second;
  std::vector<Expr> ways;
  ways.reserve(10);
  for (int d = 0; d < 10; ++d) {
    ways.push_back(pool_.concat(digit(d), open_whole(n_at_least - 1, (rest * 10 + d) % common_)));
  }
  return open_[{n_at_least, rest}] = pool_.any(ways);
}

// Returns the rule of any number of digits in front of the point, and what may follow.
Rule Multiples::loop(long rest) {
  const auto known = loops_.find(rest);
  if (known != loops_.end()) return known->second;
  // All rules are made at once, because each leads to many others.
  for (long r = 0; r < common_; ++r) loops_[r] = pool_.add_rule("multiple");
  for (long r = 0; r < common_; ++r) {
    std::vector<Expr> ways = {behind_whole(free_behind_point(r))};
    for (int d = 0; d < 10; ++d) {
      ways.push_back(pool_.concat(digit(d), pool_.call(loops_[(r * 10 + d) % common_])));
    }
    pool_.set_rule(loops_[r], pool_.any(ways));
  }
  return loops_[rest];
}

// Returns the state behind one more digit, if that is between the bounds.
std::optional<Multiples::State> Multiples::behind(const State& state, int digit) const {
  State next{state.n_left - 1, (state.rest * 10 + digit) % common_, false, false};
  const auto of = [&](const Digits& digits) {
    return digits.text[digits.text.size() - state.n_left] - '0';
  };
  if (state.is_least) {
    if (digit < of(low_)) return std::nullopt;
    next.is_least = digit == of(low_);
  }
  if (state.is_most) {
    if (digit > of(*high_)) return std::nullopt;
    next.is_most = digit == of(*high_);
  }
  return has_multiple(next) ? std::optional(next) : std::nullopt;
}

// Says whether the digits that are still to come are enough to make a multiple.
bool Multiples::has_multiple(const State& state) const {
  if (of_.empty()) return true;
  const long of = of_.front();
  long unit = 1;
  for (size_t i = 0; i < state.n_left && unit < of; ++i) unit *= 10;
  return unit >= of || (of - state.rest * unit % of) % of < unit;
}

bool Multiples::fits(long rest) const {
  const auto divides = [&](long k) { return rest % k == 0; };
  return std::all_of(of_.begin(), of_.end(), divides) &&
         std::none_of(not_of_.begin(), not_of_.end(), divides);
}

// Says whether a number fits whose digits that are still to come are zeros.
bool Multiples::may_end(const State& state) const {
  const auto are_zeros = [&](const Digits& digits) {
    const size_t at = digits.text.size() - state.n_left;
    return digits.text.find_first_not_of('0', at) == std::string::npos;
  };
  if (state.is_least && (low_.is_open || !are_zeros(low_))) return false;
  if (state.is_most && high_->is_open && are_zeros(*high_)) return false;
  long rest = state.rest;
  for (size_t i = 0; i < state.n_left; ++i) rest = rest * 10 % common_;
  return fits(rest);
}

// Returns the ways to go on with a digit, behind which comes what `then` returns.
std::vector<Expr> Multiples::with_digit(const State& state, Expr (Multiples::*then)(const State&)) {
  std::vector<Expr> ways;
  for (int d = 0; d < 10; ++d) {
    const auto next = behind(state, d);
    if (next) ways.push_back(pool_.concat(digit(d), (this->*then)(*next)));
  }
  return ways;
}

// Returns digits that are not all zeros.
Expr Multiples::more_than_zeros() {
  const Expr more = pool_.star(pool_.bytes(ByteSet::range('0', '9')));
  const Expr first = pool_.bytes(ByteSet::range('1', '9'));
  return pool_.concat(pool_.star(digit(0)), pool_.concat(first, more));
}

// Returns what may follow some digits of the part in front of the point.
Expr Multiples::whole(const State& state) {
  const auto known = wholes_.find(state);
  if (known != wholes_.end()) return known->second;
  pool_.count_step();
  if (state.n_left == n_places_) return wholes_[state] = behind_whole(state);
  return wholes_[state] = pool_.any(with_digit(state, &Multiples::whole));
}

// Returns what may follow all digits in front of the point: nothing, or a point and digits.
Expr Multiples::behind_whole(const State& state) {
  std::vector<Expr> ways;
  if (may_end(state)) ways.push_back(Pool::kEmpty);
  if (!may_have_point_) return pool_.any(ways);
  if (n_places_ == 0) {
    // One digit must stand behind the point, which may be a zero or not.
    if (may_end(state)) {
      ways.push_back(pool_.literal(".0", pool_.star(digit(0))));
    }
    if (of_.empty() && !state.is_most) ways.push_back(pool_.literal(".", more_than_zeros()));
    return pool_.any(ways);
  }
  for (const Expr way : with_digit(state, &Multiples::part)) {
    ways.push_back(pool_.literal(".", way));
  }
  return pool_.any(ways);
}

// Returns what may follow some digits behind the point.
Expr Multiples::part(const State& state) {
  const auto known = parts_.find(state);
  if (known != parts_.end()) return known->second;
  pool_.count_step();
  if (state.n_left == 0) return parts_[state] = behind_part(state);
  std::vector<Expr> ways = with_digit(state, &Multiples::part);
  if (may_end(state)) ways.push_back(Pool::kEmpty);
  return parts_[state] = pool_.any(ways);
}

// Returns what may follow the last place of multiples: zeros, or other digits where a number need
// not be a multiple.
Expr Multiples::behind_part(const State& state) {
  std::vector<Expr> ways;
  if (may_end(state)) ways.push_back(pool_.star(digit(0)));
  if (of_.empty() && !state.is_most) ways.push_back(more_than_zeros());
  return pool_.any(ways);
}

}  // namespace troika::grammar::schema
