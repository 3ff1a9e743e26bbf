#include "engine/passes.h"

#include "engine/engine.h"
#include "machines/heads_here.h"
#include "machines/phone_setup.h"

namespace troika::engine {
namespace {

// At most this many closed texts stay in the cache, for later texts that begin alike.
constexpr int kMostIdleTexts = 64;

}  // namespace

Passes::Passes(Engine& engine, const cache::KvShape& shape, const cache::PageSource& pages)
    : runner(engine.machine()),
      chunk_policy(
          schedule::make_policy(engine.plan().order, engine.phone_setup() != nullptr
                                                         ? engine.phone_setup()->orders_heads()
                                                         : machines::orders_heads(engine.plan()))),
      kv(shape, pages),
      sequences(kv, kMostIdleTexts),
      batches(engine) {
  runner.reserve(engine.graphs().most_nodes());
  runner.set_watch(engine.layouts());
}

}  // namespace troika::engine
