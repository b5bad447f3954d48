#include "chapters/03_data_parallel/parameter_server/straggler.hpp"

#include <thread>
#include <utility>

namespace ultra::data_parallel {

train::ForwardBackward with_straggler(train::ForwardBackward inner, const Straggler& straggler,
                                      const Communicator& dp) {
  if (dp.rank() != straggler.replica) return inner;
  return [inner = std::move(inner), delay = straggler.delay](
             nn::Model& model, const data::Sampler& sampler, std::size_t step) {
    std::this_thread::sleep_for(delay);
    return inner(model, sampler, step);
  };
}

}  // namespace ultra::data_parallel
