#include "schedule/policy.h"

#include "base/error.h"
#include "schedule/ordered_heads.h"
#include "schedule/out_of_order.h"

namespace troika::schedule {

std::unique_ptr<Policy> make_policy(plan::Order order, bool orders_heads) {
  TROIKA_ASSERT(!orders_heads || order != plan::Order::kLockStep);
  std::unique_ptr<Policy> policy = std::make_unique<InOrder>();
  if (order == plan::Order::kOutOfOrder) policy = std::make_unique<OutOfOrder>();
  if (!orders_heads) return policy;
  return std::make_unique<OrderedHeads>(std::move(policy));
}

}  // namespace troika::schedule
