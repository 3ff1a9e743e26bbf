// Cancels a prompt when its first part has been read.
#pragma once

#include <atomic>
#include <span>

#include "engine/batch_runner.h"

namespace troika::test_support {

class CancelsBehindAPart : public engine::PromptObserver {
 public:
  bool wants(int position) const override { return position == 0; }
  void see(int, std::span<const float>) override { cancel = true; }
  void took(double) override {}

  std::atomic<bool> cancel = false;
};

}  // namespace troika::test_support
