#include "chapters/11_five_d/stepper/rank_story.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/gpu/meta/meta_streams.hpp"
#include "common/train/elsewhere/record_step.hpp"

namespace ultra::stepper {
namespace {

using gpu::EntryKind;
using tensor_parallel::PartKind;
using tensor_parallel::RecordedStep;
using tensor_parallel::RecordedTensor;

/// What one rank's trainer says of itself while it is made, and which parts run.
struct Heard {
  const train::Plan* plan = nullptr;
  const gpu::Tape* tape = nullptr;
  std::shared_ptr<const std::vector<RecordedStep>> steps;
  RankStory story;
  std::vector<Range> micro_batches;  // sequences of the global batch
  int place_in_sequence = 0;         // among the ranks of tp
};

std::vector<Range> runs_of_positions(const std::vector<std::int32_t>& positions, std::size_t seq) {
  if (positions.empty()) return {{0, seq}};
  std::vector<Range> runs;
  for (const std::int32_t position : positions) {
    const auto at = static_cast<std::size_t>(position);
    if (at >= seq) continue;  // padding
    if (runs.empty() || runs.back().end != at) runs.push_back({at, at});
    runs.back().end = at + 1;
  }
  return runs;
}

std::vector<Range> all_of(const Shape& shape) {
  std::vector<Range> ranges;
  for (std::size_t d = 0; d < shape.rank(); ++d) ranges.push_back({0, shape[static_cast<int>(d)]});
  return ranges;
}

/// Listens, as the last of the techniques: it sees the layers as all others have made them.
class Listener : public train::Technique {
 public:
  explicit Listener(std::shared_ptr<Heard> heard) : heard_(std::move(heard)) {}

  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup&) const override {
    heard_->plan = &plan;
    auto recorder =
        std::make_unique<tensor_parallel::ShapeRecorder>(*factories.back(), [heard = heard_.get()] {
          return heard->tape != nullptr ? heard->tape->entries.size() : 0;
        });
    heard_->steps = recorder->shared_steps();
    factories.push_back(std::move(recorder));
  }

  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup& setup) const override {
    auto& streams = dynamic_cast<gpu::MetaStreams&>(trainer.context.device.streams());
    heard_->tape = &streams.tape();
    const train::Plan& plan = *heard_->plan;
    RankStory& story = heard_->story;
    story.sequences = plan.share.sequences;
    story.positions = runs_of_positions(plan.tokens.positions, setup.train.model.max_seq_len);
    for (const nn::StageSpec& chunk : plan.chunks) story.layers.push_back(chunk.layers);
    for (const train::MicroBatch& one : plan.micro_batches) {
      const std::size_t first = plan.share.sequences.begin;
      heard_->micro_batches.push_back({first + one.sequences.begin, first + one.sequences.end});
    }
    heard_->place_in_sequence = plan.mesh.along(tensor_parallel::kAxis).rank();
    const auto* const model = dynamic_cast<const train::ModelWorker*>(worker.get());
    ensure(model != nullptr, "a recorded step has no worker around its trainer");
    for (const nn::Model* chunk : model->chunks()) {
      for (const nn::Parameter* parameter : chunk->parameters()) {
        const Shape& whole = parameter->global_shape();
        story.weights.push_back(
            {.name = parameter->name(),
             .whole = whole,
             .held = parameter->shard().empty() ? all_of(whole) : parameter->shard()});
      }
    }
    for (const auto& states : trainer.states) {
      for (const train::OwnedPiece& piece : states->pieces()) {
        const std::size_t own = piece.parameter->own_count();  // padding stands behind
        std::ranges::find(story.weights, piece.parameter->name(), &HeldWeight::name)->updated +=
            std::min(piece.elements.end, own) - std::min(piece.elements.begin, own);
      }
    }
    return worker;
  }

 private:
  std::shared_ptr<Heard> heard_;
};

// Parts -------------------------------------------------------------------------------------------

/// The weight that a tensor's features are made by, or go into: of attention, those of projections.
std::string weight_of(std::string_view tensor, std::string_view part) {
  if (part == "q_norm" || tensor == "query") return "q_proj";
  if (part == "k_norm" || tensor == "key") return "k_proj";
  if (tensor == "value") return "v_proj";
  if (tensor == "gate") return "gate_proj";
  if (tensor == "up") return "up_proj";
  if (part == "attention") return "q_proj";
  if (tensor == "logits") return "lm_head";
  return std::string(part);
}

/// Turns what the recorder wrote down into what the rank has of each tensor.
class Parts {
 public:
  Parts(const RankStory& story, const Heard& heard) : story_(story), heard_(heard) {}

  PartPass of(const RecordedStep& step, std::string_view phase) {
    PartPass part{.name = step.name, .kind = step.kind, .pass = step.pass, .layer = step.layer};
    const bool again = step.pass == tensor_parallel::Pass::kForward && phase.starts_with("back");
    std::size_t& times = runs_[{step.layer.value_or(0), step.name, step.pass, again}];
    part.sequences = heard_.micro_batches[times++ % heard_.micro_batches.size()];
    for (const auto& weight : step.weights) {
      std::string_view name = weight.name;
      if (name.starts_with("d_")) name.remove_prefix(2);
      if (const HeldWeight* held = find(name, step.layer)) part.weights.push_back(held->name);
    }
    for (const RecordedTensor& one : step.inputs) part.inputs.push_back(held(one, step));
    for (const RecordedTensor& one : step.outputs) part.outputs.push_back(held(one, step));
    return part;
  }

 private:
  const HeldWeight* find(std::string_view name, std::optional<std::size_t> layer) const {
    const std::string inside = layer ? fmt::format(".layers.{}.", *layer) : "";
    const std::string ending = fmt::format("{}.weight", name);
    for (const HeldWeight& weight : story_.weights) {
      const bool fits = weight.name.ends_with("." + ending) || weight.name == ending;
      if (fits && weight.name.find(inside) != std::string::npos) return &weight;
    }
    return nullptr;
  }

  HeldTensor held(const RecordedTensor& tensor, const RecordedStep& step) const {
    HeldTensor held{.name = tensor.name, .shape = tensor.shape, .rows = rows_of(tensor.shape[1])};
    std::size_t features = 1;
    for (int d = 2; std::cmp_less(d, tensor.shape.rank()); ++d) features *= tensor.shape[d];
    std::string_view name = tensor.name;
    if (name.starts_with("d_")) name.remove_prefix(2);
    held.columns = {0, features};
    held.width = features;
    const HeldWeight* const weight = find(weight_of(name, first_of(step.name)), step.layer);
    if (weight == nullptr) return held;
    const bool goes_in = name == "input" && weight->whole.rank() == 2;
    const int dimension = goes_in ? 1 : 0;
    const bool is_table = step.kind == PartKind::kEmbedding;
    const int of = is_table ? 1 : dimension;
    // Padding has no place in the whole, and a mixture's parts have widths of their own.
    if (tensor.shape.rank() > 2 && weight->held[static_cast<std::size_t>(of)].size() <= features) {
      held.columns = weight->held[static_cast<std::size_t>(of)];
      held.width = weight->whole[of];
    }
    return held;
  }

  /// Projections of one input share its name's first weight: "q_proj, k_proj, v_proj".
  static std::string_view first_of(std::string_view names) {
    return names.substr(0, names.find(','));
  }

  /// All positions of this rank, or the part that sequence parallelism leaves it.
  std::vector<Range> rows_of(std::size_t tokens) const {
    const std::size_t all =
        std::accumulate(story_.positions.begin(), story_.positions.end(), std::size_t{0},
                        [](std::size_t sum, const Range& run) { return sum + run.size(); });
    if (tokens >= all) return story_.positions;
    std::vector<Range> rows;
    Range left{tokens * static_cast<std::size_t>(heard_.place_in_sequence), 0};
    left.end = std::min(all, left.begin + tokens);
    std::size_t before = 0;
    for (const Range& run : story_.positions) {
      const std::size_t begin = std::max(left.begin, before);
      const std::size_t end = std::min(left.end, before + run.size());
      if (begin < end) rows.push_back({run.begin + begin - before, run.begin + end - before});
      before += run.size();
    }
    return rows;
  }

  const RankStory& story_;
  const Heard& heard_;
  std::map<std::tuple<std::size_t, std::string, tensor_parallel::Pass, bool>, std::size_t> runs_;
};

// Deeds -------------------------------------------------------------------------------------------

std::string words_of(const gpu::Tape& tape, const gpu::TapedWork& work) {
  const std::string& name = tape.names[work.name];
  if (work.kind != gpu::WorkKind::kProduct) return name;
  const std::string shape = fmt::format("{} {} x {} x {}", name, work.m, work.k, work.n);
  return work.count == 1 ? shape : fmt::format("{} of {}", shape, work.count);
}

/// Reads a tape from its beginning to its end.
class TapeReader {
 public:
  TapeReader(RankStory& story, const Heard& heard, const gpu::Tape& tape)
      : story_(story), heard_(heard), tape_(tape), parts_(story, heard) {
    for (std::size_t i = 0; i < tape.messages.size(); ++i) {
      if (!tape.messages[i].sends) awaited_[tape.messages[i].end] = i;
    }
  }

  void read() {
    for (entry_ = 0; entry_ < tape_.entries.size(); ++entry_) {
      const gpu::Entry& entry = tape_.entries[entry_];
      switch (entry.kind) {
        case EntryKind::kWork:
          work(tape_.works[entry.index]);
          break;
        case EntryKind::kExchange:
          exchange(tape_.exchanges[entry.index]);
          break;
        case EntryKind::kMessage:
          message(tape_.messages[entry.index]);
          break;
        case EntryKind::kWait:
        case EntryKind::kHostWait:
          awaited(entry.index);
          break;
        case EntryKind::kMemory:
          memory(tape_.memory[entry.index]);
          break;
        case EntryKind::kRecord:
          break;
      }
    }
    while (!awaited_.empty()) awaited(awaited_.begin()->first);
    close_work();
  }

 private:
  /// The part whose pass this entry is of.
  std::optional<std::size_t> part_here() {
    const std::vector<RecordedStep>& steps = *heard_.steps;
    while (step_ < steps.size() && steps[step_].moments.end <= entry_) ++step_;
    if (step_ == steps.size() || steps[step_].moments.begin > entry_) return {};
    if (told_ != step_ + 1) {
      told_ = step_ + 1;
      story_.parts.push_back(parts_.of(steps[step_], phase_));
    }
    return story_.parts.size() - 1;
  }

  void work(const gpu::TapedWork& work) {
    phase_ = phase_of(work);
    const std::optional<std::size_t> part = part_here();
    if (story_.deeds.empty() || !open_ || story_.deeds.back().part != part ||
        story_.deeds.back().phase != phase_) {
      close_work();
      begin(DeedKind::kWork).part = part;
      open_ = true;
    }
    Deed& deed = story_.deeds.back();
    deed.flop += work.flop;
    deed.in_use = in_use_;
    const std::string words = words_of(tape_, work);
    const auto known = std::ranges::find(counts_, words, &std::pair<std::string, int>::first);
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace_back(words, 1);
    }
  }

  void close_work() {
    if (open_) {
      for (const auto& [words, times] : counts_) {
        story_.deeds.back().works.push_back(times == 1 ? words
                                                       : fmt::format("{}, {} times", words, times));
      }
    }
    counts_.clear();
    open_ = false;
  }

  /// "step 2: forward, block 0": the recorded step is the second.
  [[nodiscard]] std::string phase_of(const gpu::TapedWork& work) const {
    const std::string& phase = tape_.names[work.phase];
    const std::size_t colon = phase.find(": ");
    return colon == std::string::npos ? phase : phase.substr(colon + 2);
  }

  /// An exchange at the beginning of a part is of the phase of what the part then works.
  void look_ahead() {
    const std::vector<RecordedStep>& steps = *heard_.steps;
    if (!part_here()) return;
    for (std::size_t i = entry_; i < steps[step_].moments.end; ++i) {
      if (tape_.entries[i].kind != EntryKind::kWork) continue;
      phase_ = phase_of(tape_.works[tape_.entries[i].index]);
      return;
    }
  }

  Deed& begin(DeedKind kind) {
    close_work();
    if (kind != DeedKind::kWork) look_ahead();
    return story_.deeds.emplace_back(
        Deed{.kind = kind, .phase = phase_, .part = part_here(), .in_use = in_use_});
  }

  void exchange(const gpu::TapedExchange& exchange) {
    if (tape_.groups[exchange.group].members.size() == 1) return;
    Deed& deed = begin(DeedKind::kExchange);
    deed.exchange = exchange.kind;
    deed.group = tape_.groups[exchange.group];
    deed.number = exchange.sequence;
    deed.label = tape_.names[exchange.label];
    deed.bytes = exchange.bytes;
    deed.sent_bytes = exchange.sent_bytes;
  }

  void message(const gpu::TapedMessage& message) {
    if (message.sends) describe(begin(DeedKind::kSend), message).sent_bytes = message.bytes;
  }

  Deed& describe(Deed& deed, const gpu::TapedMessage& message) {
    deed.group = tape_.groups[message.group];
    deed.number = message.name;
    deed.peer = message.peer;
    deed.bytes = message.bytes;
    return deed;
  }

  void awaited(gpu::EventId event) {
    const auto found = awaited_.find(event);
    if (found == awaited_.end()) return;
    describe(begin(DeedKind::kReceive), tape_.messages[found->second]);
    awaited_.erase(found);
  }

  void memory(const gpu::TapedMemory& usage) {
    in_use_ = std::accumulate(usage.begin(), usage.end(), std::size_t{0});
    if (!story_.deeds.empty()) story_.deeds.back().in_use = in_use_;
  }

  RankStory& story_;
  const Heard& heard_;
  const gpu::Tape& tape_;
  Parts parts_;
  std::map<gpu::EventId, std::size_t> awaited_;
  std::vector<std::pair<std::string, int>> counts_;
  std::string phase_;
  std::size_t entry_ = 0;
  std::size_t step_ = 0;
  std::size_t told_ = 0;
  std::size_t in_use_ = 0;
  bool open_ = false;
};

RankStory tell_rank(const train::Setup& setup, Heard& heard, int rank) {
  heard = {};
  const train::RecordedRank recorded = train::record_step(setup, rank);
  RankStory story = std::move(heard.story);
  story.rank = rank;
  const MeshShape shape = setup.mesh_shape(setup.ranks());
  for (const Axis& axis : shape.axes()) {
    if (axis.size > 1) story.place.emplace_back(axis.name, shape.position(rank, axis.name));
  }
  TapeReader(story, heard, *recorded.tape).read();
  return story;
}

}  // namespace

std::vector<RankStory> tell_ranks(train::Setup& setup) {
  const int ranks = setup.ranks();
  if (ranks > kMostRanks) {
    throw ConfigError(fmt::format(
        "--step-through tells what each rank does, and {} are too many to read: at most {}. Make "
        "the layout smaller, or leave out --step-through.",
        ranks, kMostRanks));
  }
  const auto heard = std::make_shared<Heard>();
  setup.techniques.push_back(std::make_unique<Listener>(heard));
  std::vector<RankStory> stories;
  for (int rank = 0; rank < ranks; ++rank) stories.push_back(tell_rank(setup, *heard, rank));
  setup.techniques.pop_back();
  return stories;
}

}  // namespace ultra::stepper
