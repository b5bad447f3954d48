#pragma once
/// @file
/// A pipeline that a test writes by hand: stages, chunks and lists of actions, as one more technique in a
/// program's list. Nothing of the chapters knows it.

#include <map>

#include "common/comm/work.hpp"
#include "common/train/cli/technique.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::composition {

/// @brief Which part of the model each chunk of each stage is, and what each stage does.
struct HandWritten {
  int stages = 1;
  std::vector<std::vector<nn::StageSpec>> chunks;  ///< by stage, in the order of the layers
  std::vector<train::StepSchedule> schedules;      ///< by stage; empty: the chapters' own
  std::vector<std::pair<int, std::size_t>> way =
      {};                          ///< stage and chunk, from the first layer to the last
  std::size_t sequence_parts = 1;  ///< ranks that share the tokens between layers
};

/// @brief Sends activations forth and gradients back along the way, in messages or in memory.
class WayLinks : public train::StageLinks {
 public:
  WayLinks(Communicator pp, const HandWritten& pipeline, const train::ModelScope& scope)
      : pp_(std::move(pp)), pipeline_(pipeline), scope_(scope) {}

  Tensor receive(const train::Action& forward) override {
    return take(forward, position(forward) - 1, 0);
  }
  void send(const train::Action& forward, const Tensor& output) override {
    give(forward, position(forward) + 1, 0, output);
  }
  Tensor receive_gradient(const train::Action& backward) override {
    return take(backward, position(backward) + 1, 1);
  }
  void send_gradient(const train::Action& backward, const Tensor& gradient) override {
    give(backward, position(backward) - 1, 1, gradient);
  }
  void finish() override {
    for (auto& [work, tensor] : sends_) work.wait();
    sends_.clear();
  }

 private:
  /// Where on the way an action's chunk stands.
  [[nodiscard]] std::size_t position(const train::Action& action) const {
    std::size_t at = 0;
    while (pipeline_.way[at] != std::pair(pp_.rank(), action.chunk)) ++at;
    return at;
  }
  /// Of the border between two places, which the lower one of them names.
  [[nodiscard]] MessageName name(const train::Action& action, std::size_t border,
                                 int channel) const {
    const std::size_t number = action.micro_batch * pipeline_.way.size() + border;
    return {.channel = channel, .number = static_cast<std::uint32_t>(number)};
  }

  void give(const train::Action& action, std::size_t to, int channel, const Tensor& tensor) {
    const MessageName message = name(action, std::min(position(action), to), channel);
    if (pipeline_.way[to].first == pp_.rank()) {
      here_[{message.channel, message.number}] = tensor;
    } else {
      sends_.emplace_back(pp_.send(tensor, pipeline_.way[to].first, message), tensor);
    }
  }

  Tensor take(const train::Action& action, std::size_t from, int channel) {
    const MessageName message = name(action, std::min(position(action), from), channel);
    if (pipeline_.way[from].first == pp_.rank()) {
      return std::move(here_.extract({message.channel, message.number}).mapped());
    }
    const nn::Model& model = *scope_.chunks.front();
    const std::size_t batch = scope_.plan.micro_batches[action.micro_batch].sequences.size();
    const Tensor arrived = Tensor::empty(
        model.device(),
        {batch, model.config().max_seq_len / pipeline_.sequence_parts, model.config().hidden_size},
        scope_.context.options.dtype, MemoryCategory::kActivations);
    pp_.recv(arrived, pipeline_.way[from].first, message).wait();
    return arrived;
  }

  Communicator pp_;
  HandWritten pipeline_;
  train::ModelScope scope_;
  std::map<std::pair<int, std::uint32_t>, Tensor> here_;
  std::vector<std::pair<Work, Tensor>> sends_;
};

/// @brief The axis of the stages.
inline constexpr std::string_view kStages = "stages";

/// @brief The pipeline as a technique: its axis, its chunks, its schedule, its links.
class HandWrittenPipeline : public train::Technique {
 public:
  explicit HandWrittenPipeline(HandWritten pipeline) : pipeline_(std::move(pipeline)) {}

  std::optional<Axis> axis() const override {
    return Axis{.name = std::string(kStages),
                .size = static_cast<std::size_t>(pipeline_.stages),
                .splits = Splits::kLayers,
                .nearness = 20,
                .flag = "stages by hand"};
  }

  void configure_plan(train::Plan& plan, const train::Setup& setup) const override {
    const auto stage = static_cast<std::size_t>(plan.mesh.along(kStages).rank());
    plan.chunks = pipeline_.chunks[stage];
    if (!pipeline_.schedules.empty()) plan.schedule = pipeline_.schedules[stage];
    const auto is_end = [&](int rank) { return rank == 0 || rank + 1 == pipeline_.stages; };
    if (setup.train.model.tied_embeddings && pipeline_.stages > 1) {
      plan.groups.add(std::string(nn::kTiedGroup),
                      plan.mesh.along(kStages).split(is_end, "both ends"));
    }
  }

  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.links.claim("stages by hand", [this](const train::ModelScope& scope) {
      return std::make_unique<WayLinks>(scope.plan.mesh.along(kStages), pipeline_, scope);
    });
  }

 private:
  HandWritten pipeline_;
};

/// @brief The layers of a model in as many parts as there are places on the way, as even as possible.
[[nodiscard]] inline HandWritten staged(int stages, std::vector<std::pair<int, std::size_t>> way,
                                        std::size_t layers,
                                        std::vector<std::string> schedules = {}) {
  HandWritten pipeline{.stages = stages, .chunks = {}, .schedules = {}, .way = std::move(way)};
  pipeline.chunks.resize(static_cast<std::size_t>(stages));
  const std::size_t places = pipeline.way.size();
  for (std::size_t at = 0; at < places; ++at) {
    pipeline.chunks[static_cast<std::size_t>(pipeline.way[at].first)].push_back(
        {.layers = {at * layers / places, (at + 1) * layers / places},
         .has_embedding = at == 0,
         .has_head = at + 1 == places});
  }
  for (const std::string& schedule : schedules)
    pipeline.schedules.push_back(test::schedule_of(schedule));
  return pipeline;
}

/// @brief One forward, one backward on any number of stages: warm-up, steady state, cool-down.
[[nodiscard]] inline HandWritten one_forward_one_backward(int stages, std::size_t layers,
                                                          std::size_t micro_batches) {
  std::vector<std::pair<int, std::size_t>> way;
  std::vector<std::string> schedules;
  for (int stage = 0; stage < stages; ++stage) {
    way.emplace_back(stage, 0);
    const auto ahead = std::min(static_cast<std::size_t>(stages - stage), micro_batches);
    std::string schedule;
    for (std::size_t i = 0; i < ahead; ++i) schedule += fmt::format("F{} ", i);
    for (std::size_t i = 0; i < micro_batches; ++i) {
      schedule += fmt::format("BW{} ", i);
      if (i + ahead < micro_batches) schedule += fmt::format("F{} ", i + ahead);
    }
    schedule.pop_back();
    schedules.push_back(schedule);
  }
  return staged(stages, std::move(way), layers, std::move(schedules));
}

}  // namespace ultra::composition
