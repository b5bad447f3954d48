#pragma once
/// @file
/// PipelineLinks: activations to the next part of the model, their gradients back.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/execution/action_log.hpp"
#include "chapters/07_pipeline_parallel/schedule/messages.hpp"
#include "chapters/07_pipeline_parallel/schedule/pipeline_schedule.hpp"
#include "common/comm/communicator.hpp"
#include "common/train/plan.hpp"
#include "common/train/stage_links.hpp"

namespace ultra::pipeline_parallel {

/// @brief What travels between parts: hidden states of a micro-batch, as this rank has them.
struct BorderTensors {
  Device device;                       ///< where they live
  DType dtype;                         ///< of activations
  std::vector<std::size_t> sequences;  ///< of each micro-batch
  std::size_t tokens = 0;              ///< of each sequence, of which this rank has a part
  std::size_t hidden = 0;              ///< width

  /// @brief Room for those of a micro-batch, [batch, seq, hidden].
  [[nodiscard]] Tensor room_for(std::size_t micro_batch) const;
};

/// @brief Follows the messages of a schedule: receives are posted where it says so, sends leave
/// right after their pass and are waited for when the step ends; between two parts on one rank a
/// tensor is handed over in memory.
///
/// A message is named by its micro-batch and by the part that receives it; activations and
/// gradients have channels of their own.
/// Communication: per micro-batch and border between ranks one activation and one gradient.
class PipelineLinks : public train::StageLinks {
 public:
  /// @param pp        the ranks of the pipeline.
  /// @param schedule  of all stages.
  /// @param log       told when inputs are there.
  PipelineLinks(Communicator pp, PipelineSchedule schedule, BorderTensors tensors,
                std::shared_ptr<ActionLog> log);

  void passes_begin(std::span<const train::Action> schedule) override;
  void action_begins(const train::Action& action) override;
  [[nodiscard]] Tensor receive(const train::Action& forward) override;
  void send(const train::Action& forward, const Tensor& output) override;
  [[nodiscard]] Tensor receive_gradient(const train::Action& backward) override;
  void send_gradient(const train::Action& backward, const Tensor& gradient) override;
  void finish() override;
  [[nodiscard]] std::string place(const train::Action& action) const override;

 private:
  using Key = std::pair<int, std::uint32_t>;  // of a message: channel and number
  struct Arrival {
    Tensor tensor;
    Work work;
  };

  [[nodiscard]] std::size_t stage() const { return static_cast<std::size_t>(pp_.rank()); }
  [[nodiscard]] bool is_here(std::size_t part) const;
  [[nodiscard]] MessageName name_of(const Message& message) const;
  [[nodiscard]] static Key key_of(const MessageName& name) { return {name.channel, name.number}; }
  void post(const Instruction& instruction);
  [[nodiscard]] Tensor take(const train::Action& action);
  void give(const train::Action& action, const Tensor& tensor);
  void drop_sent();

  Communicator pp_;
  PipelineSchedule schedule_;
  std::vector<Instruction> step_;      // of this rank
  std::vector<Instruction> forwards_;  // of the forward passes alone, once they are needed
  const std::vector<Instruction>* instructions_ = &step_;  // that it follows
  BorderTensors tensors_;
  std::shared_ptr<ActionLog> log_;
  std::size_t next_ = 0;  // instruction
  std::map<Key, Arrival> posted_;
  std::map<Key, Tensor> here_;
  std::list<Work> sends_;
};

/// @brief The tensors at the borders of a rank's parts.
/// @param parts_of_tokens  ranks that share the tokens between layers: those of sequence
/// parallelism.
[[nodiscard]] BorderTensors border_tensors(const train::Plan& plan, const Device& device,
                                           const train::TrainOptions& options,
                                           std::size_t parts_of_tokens);

}  // namespace ultra::pipeline_parallel
