#include "schedule/policy.h"

#include "schedule/out_of_order.h"

namespace troika::schedule {

std::unique_ptr<Policy> make_policy(plan::Order order) {
  if (order == plan::Order::kOutOfOrder) return std::make_unique<OutOfOrder>();
  return std::make_unique<InOrder>();
}

}  // namespace troika::schedule
