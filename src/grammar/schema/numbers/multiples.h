// Makes an expression of the numbers between bounds that are multiples of some numbers, and of
// others not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/pool.h"
#include "grammar/schema/constraints.h"
#include "grammar/schema/document/document.h"
#include "grammar/schema/numbers/decimal.h"

namespace troika::grammar::schema {

// Reads digits as in a long division: the rest of the division so far says what may follow, and
// whether the digits so far are those of a bound.
class Multiples {
 public:
  // Errors name the schema `where`.
  Multiples(const Constraints& constraints, const Document& document, const Json& where,
            Pool* pool);

  Expr numbers();

 private:
  // Digits of a bound, scaled so that the last one stands where multiples have their last one.
  struct Digits {
    std::string text;
    bool is_open;  // says that the number of these digits itself is out
  };
  // What is known behind some digits: how many are still to come, the rest of the division, and
  // whether all digits were those of the lower or upper bound.
  struct State {
    size_t n_left;
    long rest;
    bool is_least, is_most;
    auto operator<=>(const State&) const = default;
  };

  long scaled(const Json& value) const;
  void drop_places();
  bool are_whole() const;
  [[noreturn]] void refuse() const;
  Digits digits_of(const Decimal& bound, bool is_open, bool is_upper) const;
  std::optional<Bound> strictest(const std::vector<Bound>& bounds, bool is_upper) const;
  Digits digits_at(const Bound& bound, bool is_upper, bool is_most);
  Expr magnitudes(const std::optional<Bound>& least, const std::optional<Bound>& most,
                  bool is_negative);
  Expr of_length(size_t n_whole);
  Expr longer_than_least();
  Expr any_length();
  std::optional<State> behind(const State& state, int digit) const;
  bool has_multiple(const State& state) const;
  bool fits(long rest) const;
  bool may_end(const State& state) const;
  Expr whole(const State& state);
  std::vector<Expr> with_digit(const State& state, Expr (Multiples::*then)(const State&));
  Expr more_than_zeros();
  // Returns the state behind whole digits that leave `rest`, where no bound decides any more.
  State free_behind_point(long rest) const {
    return {.n_left = n_places_, .rest = rest, .is_least = false, .is_most = false};
  }
  Expr behind_whole(const State& state);
  Expr part(const State& state);
  Expr behind_part(const State& state);
  Expr open_whole(size_t n_at_least, long rest);
  Rule loop(long rest);
  Expr digit(int n);

  const Document& document_;
  const Json& where_;
  Pool& pool_;
  std::optional<Bound> least_, most_;
  size_t n_places_ = 0;            // digits behind the point
  std::vector<long> of_, not_of_;  // scaled by the places
  long common_ = 1;                // a multiple of all of them
  bool may_have_point_ = true;
  Digits low_{"0", false};
  std::optional<Digits> high_;
  std::vector<Expr> limits_;  // keep numbers away from bounds that are out
  std::map<State, Expr> wholes_, parts_;
  std::map<std::pair<size_t, long>, Expr> open_;
  std::map<long, Rule> loops_;
};

}  // namespace troika::grammar::schema
