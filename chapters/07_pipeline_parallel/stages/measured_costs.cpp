#include "chapters/07_pipeline_parallel/stages/measured_costs.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/nn/saved.hpp"
#include "common/tensor/synchronize.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr int kTries = 3;

/// The input of a piece, and what comes back to its output.
struct PieceTensors {
  Tensor input;    // tokens [batch, seq], or hidden states [batch, seq, hidden]
  Tensor targets;  // [batch, seq]
};

double seconds_of(nn::Model& piece, const PieceTensors& tensors) {
  const auto begin = std::chrono::steady_clock::now();
  // What the module of the token after next reads costs the same, whatever it is.
  double further = 0;
  nn::Pass pass;
  pass.next = std::make_shared<const nn::NextTokens>(
      nn::NextTokens{.tokens = tensors.targets, .targets = tensors.targets, .loss = &further});
  nn::Saved saved(nn::Saved::Mode::kKeep, pass);
  const Tensor output = piece.forward(tensors.input, saved);
  if (piece.stage().has_head) {
    const auto tokens = static_cast<double>(tensors.targets.numel());
    static_cast<void>(piece.loss(output, tensors.targets, tokens, saved));
    static_cast<void>(piece.backward(saved));
  } else {
    static_cast<void>(piece.backward(output, saved));
  }
  synchronize(piece.device());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double least_seconds(const train::TrainOptions& options, const nn::StageSpec& stage) {
  const Device device = Device::create(options.device);
  nn::DenseFactory factory;
  nn::Model piece(options.model, device, options.dtype, options.seed, factory, stage);
  const std::size_t seq = options.model.max_seq_len;
  const Shape tokens{options.micro_batch, seq};
  const PieceTensors tensors{
      .input = stage.has_embedding
                   ? Tensor::zeros(device, tokens, DType::kI32)
                   : Tensor::zeros(device, {options.micro_batch, seq, options.model.hidden_size},
                                   options.dtype),
      .targets = Tensor::zeros(device, tokens, DType::kI32)};
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) least = std::min(least, seconds_of(piece, tensors));
  return least;
}

}  // namespace

PieceCosts measure_pieces(const train::TrainOptions& options, const train::Plan& plan) {
  std::vector<double> seconds(3, 0.0);
  if (plan.ranks().rank() == 0) {
    const Range none{0, 0};
    seconds = {
        least_seconds(options, {.layers = none, .has_embedding = true, .has_head = false}),
        least_seconds(options, {.layers = {0, 1}, .has_embedding = false, .has_head = false}),
        least_seconds(options, {.layers = none, .has_embedding = false, .has_head = true})};
  }
  const Tensor shared = Tensor::from<double>(Device::cpu(), {seconds.size()}, seconds);
  plan.ranks().labeled("measured pieces").broadcast(shared, 0).wait();
  const std::vector<double> all = shared.to_vector();
  return {.embedding = all[0], .block = all[1], .head = all[2]};
}

}  // namespace ultra::pipeline_parallel
