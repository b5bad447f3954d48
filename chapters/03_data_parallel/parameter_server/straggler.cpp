#include "chapters/03_data_parallel/parameter_server/straggler.hpp"

#include <thread>

namespace ultra::data_parallel {
namespace {

class SleepingReplica : public train::StepObserver {
 public:
  explicit SleepingReplica(std::chrono::duration<double> delay) : delay_(delay) {}
  void step_begins(const train::StepPlan&) override { std::this_thread::sleep_for(delay_); }

 private:
  std::chrono::duration<double> delay_;
};

}  // namespace

std::unique_ptr<train::StepObserver> make_straggler(const Straggler& straggler,
                                                    const Communicator& dp) {
  const bool is_slow = dp.rank() == straggler.replica;
  return std::make_unique<SleepingReplica>(is_slow ? straggler.delay
                                                   : std::chrono::duration<double>{});
}

}  // namespace ultra::data_parallel
