// Plans a small model on virtual phones that compute no values.
#include "machines/phone_setup.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "tests/support/repository.h"

namespace troika::machines {
namespace {

class PhoneSetups : public testing::Test {
 protected:
  PhoneSetups() {
    options_.phone.file = test::repository_file("phones/8gen3.json");
    options_.phone.stack = "heterollm";
    options_.phone.has_values = false;
  }
  std::unique_ptr<PhoneSetup> make() const {
    return make_phone_setup(options_, file_, blueprint_, weights_);
  }
  std::unique_ptr<PhoneSetup> make(int context) {
    options_.memory.context = context;
    return make();
  }

  forge::HollowModel hollow_{model::get_known("tiny-llama"), "q8_0"};
  gguf::File file_ = hollow_.open();
  model::Blueprint blueprint_ = model::read(file_);
  weights::Store weights_{file_, blueprint_};
  prepare::Options options_;
};

TEST_F(PhoneSetups, EveryContextThatAPlanCanSayIsPlanned) {
  for (const int context : {1, 16, 17, 4096, plan::kMostContext}) {
    const plan::Plan plan = make(context)->plan;
    EXPECT_EQ(plan.context, context);
    EXPECT_GE(plan.chunk(), 32) << context;
  }
  EXPECT_THROW(make(plan::kMostContext + 1), UsageError);
  EXPECT_THROW(make(2000000000), UsageError);
}

TEST_F(PhoneSetups, D1AShortContextCanChangeLayouts) {
  options_.memory.layouts = prepare::Layouts::kSwitch;
  for (const int context : {17, 32}) EXPECT_EQ(make(context)->plan.chunk(), 32) << context;
}

}  // namespace
}  // namespace troika::machines
