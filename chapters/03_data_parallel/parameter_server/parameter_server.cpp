#include "chapters/03_data_parallel/parameter_server/parameter_server.hpp"

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

ServedWeights::ServedWeights(const ServerWorld& servers, const ServedModel& model,
                             const Device& device, DType dtype, const optim::Rule& rule)
    : servers_(servers), model_(model) {
  if (servers.settings.priority == Priority::kPriority) {
    // A slice that is updated goes to all replicas.
    queue_ = std::make_shared<SendQueue>(kSlicesOnTheirWay * servers.replicas());
  }
  const int own = servers.group.rank();
  std::vector<Work> works;
  for (const std::size_t number : slices_of_server(model.slices, own)) {
    const Slice& slice = model.slices[number];
    const ServedParameter& parameter = model.parameters[slice.parameter];
    slices_.push_back({.number = number,
                       .messenger = servers.world.labeled(parameter.name),
                       .value = Tensor::empty(device, {slice.elements.size()}, dtype,
                                              MemoryCategory::kParameters),
                       .decays = parameter.decays,
                       .optimizer = optim::Optimizer(rule)});
    works.push_back(
        slices_.back().messenger.recv(slices_.back().value, 0, push_name(model, 0, number)));
  }
  for (Work& work : works) work.wait();
}

Tensor ServedWeights::buffer(std::size_t slice) const {
  const Tensor& value = slices_[slice].value;
  return Tensor::empty(value.device(), value.shape(), value.dtype(),
                       MemoryCategory::kCommunication);
}

void ServedWeights::update(std::size_t slice, const Tensor& gradient, double learning_rate,
                           double gradient_scale) {
  Kept& kept = slices_[slice];
  const optim::TensorUpdate update{.value = kept.value, .grad = gradient, .decay = kept.decays};
  kept.optimizer.step(std::span(&update, 1), learning_rate, gradient_scale);
}

Work ServedWeights::receive(std::size_t slice, int replica, std::size_t step,
                            const Tensor& gradient) const {
  const Kept& kept = slices_[slice];
  return kept.messenger.recv(gradient, replica, push_name(model_, step, kept.number));
}

Work ServedWeights::send(std::size_t slice, int replica, std::size_t step,
                         const Tensor& values) const {
  const Kept& kept = slices_[slice];
  return send_in_turn(kept.messenger, values, replica, pull_name(model_, step, kept.number),
                      {.queue = queue_, .priority = checked_cast<int>(kept.number)});
}

void send_first_weights(const ServerWorld& servers, const ServedModel& model,
                        const std::vector<Tensor>& values) {
  ensure(values.size() == model.parameters.size(), "the values of all parameters");
  std::vector<Work> works;
  for (std::size_t s = 0; s < model.slices.size(); ++s) {
    const Slice& slice = model.slices[s];
    works.push_back(servers.world.labeled(model.parameters[slice.parameter].name)
                        .send(elements_of(slice, values[slice.parameter]),
                              servers.rank_of_server(slice.server), push_name(model, 0, s)));
  }
  for (Work& work : works) work.wait();
}

}  // namespace ultra::data_parallel
