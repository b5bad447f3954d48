#include "chapters/04_zero/offload/offloaded_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/train/gradients/model_states.hpp"

namespace ultra::zero {
namespace {

using comm::bytes_of;
using Kind = StorageEvent::Kind;

/// A tensor in the host's memory for what goes to a tensor or comes from there: on the CPU itself.
Tensor host_side_of(const Tensor& tensor) {
  const Device& device = tensor.device();
  if (!has_streams(device.kind())) return tensor;
  return Tensor::empty(device.host(), tensor.shape(), tensor.dtype());
}

/// Numbers that the optimizer keeps of an element, at most.
std::size_t most_states(std::span<const OffloadedTensor> tensors) {
  std::size_t most = 1;
  for (const OffloadedTensor& tensor : tensors) most = std::max(most, tensor.states);
  return most;
}

/// Copies between the two sides.
void bring(const Tensor& to, const Tensor& from) {
  if (!to.shares_storage(from)) to.copy_from(from);
}

}  // namespace

OffloadedStates::OffloadedStates(const OffloadSettings& settings,
                                 std::span<const OffloadedTensor> tensors, const Device& device,
                                 DType dtype, OffloadedLayout::Weights weights)
    : layout_(tensors, settings.least_block_bytes / (most_states(tensors) * size_of(dtype)),
              weights),
      dtype_(dtype),
      step_(layout_.blocks().size(),
            {.start_read = [this](std::size_t block,
                                  std::size_t buffer) { start_read(block, buffer); },
             .finish_read =
                 [this](std::size_t block) {
                   finish(block, reads_.at(block % kWindowBuffers), Kind::kRead);
                 },
             .start_write = [this](std::size_t block,
                                   std::size_t buffer) { start_write(block, buffer); },
             .finish_write =
                 [this](std::size_t block) {
                   finish(block, writes_.at(block % kWindowBuffers), Kind::kWrite);
                 }}) {
  use_.stored_bytes = layout_.stored() * size_of(dtype);
  file_ = open_storage(settings, use_.stored_bytes);
  const auto sizes = layout_.buffers();
  for (std::size_t b = 0; b < kWindowBuffers; ++b) {
    if (sizes[b] == 0) continue;
    window_[b] = Tensor::empty(device, {sizes[b]}, dtype, MemoryCategory::kOptimizer);
    host_window_[b] = host_side_of(window_[b]);
  }
}

Range OffloadedStates::stored_elements(std::size_t block) const {
  const std::size_t weights =
      layout_.stores_weights() ? layout_.blocks()[block].elements.size() : 0;
  return {0, weights + layout_.stored_states(block).size()};
}

// [region block_transfers]
template <class Begin>
void OffloadedStates::start(std::size_t block, std::size_t buffer, Transfers& transfers,
                            const Begin& begin) {
  const OffloadedBlock& b = layout_.blocks()[block];
  const Tensor& window = host_window_.at(buffer);
  const std::size_t weights = layout_.stores_weights() ? b.elements.size() : 0;
  const Range states = layout_.stored_states(block);
  transfers.clear();
  if (weights > 0) {
    transfers.push_back(begin(byte(b.elements.begin), bytes_of(window.slice(0, {0, weights}))));
  }
  transfers.push_back(
      begin(byte(states.begin), bytes_of(window.slice(0, {weights, weights + states.size()}))));
}

void OffloadedStates::start_read(std::size_t block, std::size_t buffer) {
  start(block, buffer, reads_.at(buffer),
        [this](auto offset, auto bytes) { return file_->read_async(offset, bytes); });
}

void OffloadedStates::start_write(std::size_t block, std::size_t buffer) {
  const Range elements = stored_elements(block);
  bring(host_window_.at(buffer).slice(0, elements), window_.at(buffer).slice(0, elements));
  start(block, buffer, writes_.at(buffer),
        [this](auto offset, auto bytes) { return file_->write_async(offset, bytes); });
}
// [/region]

void OffloadedStates::finish(std::size_t block, Transfers& transfers, Kind kind) {
  const std::size_t n = layout_.blocks()[block].elements.size() * size_of(dtype_);
  const std::string name =
      fmt::format("{} block {}", kind == Kind::kRead ? "read" : "write", block);
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    const bool states = t + 1 == transfers.size();
    wait_for(transfers[t], states ? layout_.stored_states(block).size() * size_of(dtype_) : n, kind,
             name, use_.optimizer);
  }
  transfers.clear();
  if (kind == Kind::kWrite) return;
  const Range elements = stored_elements(block);
  const std::size_t buffer = block % kWindowBuffers;
  bring(window_.at(buffer).slice(0, elements), host_window_.at(buffer).slice(0, elements));
}

void OffloadedStates::wait_for(storage::Transfer& transfer, std::size_t bytes, Kind kind,
                               std::string_view name, train::StorageTraffic& traffic) {
  using Clock = storage::TransferTimes::Clock;
  storage::TransferTimes waited{.begin = Clock::now(), .end = {}};
  const storage::TransferTimes times = transfer.wait();
  waited.end = Clock::now();
  const bool read = kind == Kind::kRead;
  (read ? traffic.read_bytes : traffic.written_bytes) += bytes;
  (read ? traffic.read_seconds : traffic.write_seconds) += times.seconds();
  traffic.exposed_seconds += waited.seconds();
  if (!observer_) return;
  observer_({.kind = kind, .name = std::string(name), .times = times});
  observer_({.kind = Kind::kWait, .name = std::string(name), .times = waited});
}

std::vector<Tensor> OffloadedStates::borrow(std::size_t tensor) {
  const std::size_t block = layout_.block_of(tensor);
  if (tensor == layout_.blocks()[block].tensors.begin) {
    static_cast<void>(step_.begin_block(block));
  }
  const Tensor& window = window_.at(block % kWindowBuffers);
  std::vector<Tensor> states;
  for (std::size_t s = 0; s < layout_.states(tensor); ++s) {
    states.push_back(window.slice(0, layout_.state_in_buffer(tensor, s)));
  }
  return states;
}

void OffloadedStates::give_back(std::size_t tensor) {
  const std::size_t block = layout_.block_of(tensor);
  if (tensor + 1 == layout_.blocks()[block].tensors.end) step_.end_block(block);
}

Tensor OffloadedStates::weights_in_window(std::size_t tensor) const {
  ensure(layout_.stores_weights(), "weights that are not offloaded have no place in the window");
  return window_.at(layout_.block_of(tensor) % kWindowBuffers)
      .slice(0, layout_.weights_in_buffer(tensor));
}

WeightsRead OffloadedStates::read_weights_async(const Range& elements, const Tensor& out) {
  ensure(layout_.stores_weights(), "weights that are not offloaded are not in storage");
  // The last blocks of the step may still be on their way there, and the first weights that the passes
  // need are among them. Afterwards nothing is left to wait for.
  step_.settle();
  const Tensor host = host_side_of(out);
  return {.host = host,
          .out = out,
          .transfer = file_->read_async(byte(elements.begin), bytes_of(host))};
}

void OffloadedStates::finish_read(WeightsRead& read, std::string_view name) {
  wait_for(read.transfer, read.out.nbytes(), Kind::kRead, name, use_.weights);
  bring(read.out, read.host);
  read.host = Tensor();
  read.out = Tensor();
}

void OffloadedStates::read_now(const Range& stored, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor flat = Tensor::empty(Device::cpu(), out.shape(), dtype_);
  file_->read_async(byte(stored.begin), bytes_of(flat)).wait();
  if (out.dtype() == dtype_) return out.copy_from(flat);
  cast_into(out, flat);
}

void OffloadedStates::write_now(const Range& stored, const Tensor& in) {
  if (in.numel() == 0) return;
  const Tensor dense = cast(in, dtype_).contiguous();
  const Tensor host = host_side_of(dense);
  bring(host, dense);
  file_->write_async(byte(stored.begin), bytes_of(host)).wait();
}

void OffloadedStates::read_weights(const Range& elements, const Tensor& out) {
  ensure(layout_.stores_weights() && elements.size() == out.numel(), "weights of these elements");
  settle();
  read_now(elements, out);
}

void OffloadedStates::write_weights(const Range& elements, const Tensor& in) {
  ensure(layout_.stores_weights() && elements.size() == in.numel(), "weights of these elements");
  settle();
  write_now(elements, in);
}

void OffloadedStates::read_states(std::size_t tensor, std::span<const Tensor> out) {
  settle();
  for (std::size_t s = 0; s < layout_.states(tensor); ++s) {
    read_now(layout_.stored_state(tensor, s), out[s]);
  }
}

void OffloadedStates::write_states(std::size_t tensor, std::span<const Tensor> in) {
  settle();
  for (std::size_t s = 0; s < layout_.states(tensor); ++s) {
    write_now(layout_.stored_state(tensor, s), in[s]);
  }
}

namespace {

class OffloadedStore final : public optim::StateStore {
 public:
  explicit OffloadedStore(std::shared_ptr<OffloadedStates> states) : states_(std::move(states)) {}

  void allocate(std::span<const Tensor> values, std::span<const optim::StateSpecs> specs) override {
    const OffloadedLayout& layout = states_->layout();
    ensure(values.size() == layout.tensors(), "states of other tensors were made");
    for (std::size_t i = 0; i < values.size(); ++i) {
      ensure(
          values[i].numel() == layout.elements_of(i).size() && specs[i].size() == layout.states(i),
          "states are of their tensor's size, and as many as were made");
      shapes_.push_back(values[i].shape());
    }
  }

  std::size_t size() const override { return shapes_.size(); }

  std::span<const Tensor> borrow(std::size_t i) override {
    borrowed_ = states_->borrow(i);
    for (Tensor& state : borrowed_) state = state.view(shapes_.at(i));
    return borrowed_;
  }

  void give_back(std::size_t i) override {
    borrowed_.clear();
    states_->give_back(i);
  }
  void end_step() override { states_->end_step(); }
  bool lends_weights() const override { return states_->layout().stores_weights(); }
  void read(std::size_t i, std::span<const Tensor> out) override { states_->read_states(i, out); }
  void write(std::size_t i, std::span<const Tensor> in) override { states_->write_states(i, in); }

 private:
  std::shared_ptr<OffloadedStates> states_;
  std::vector<Shape> shapes_;
  std::vector<Tensor> borrowed_;
};

/// What the optimizer updates is in storage: the weights, or the master weights beside them.
class StoredWeights final : public train::MasterWeights {
 public:
  StoredWeights(std::shared_ptr<OffloadedStates> states, bool are_masters)
      : states_(std::move(states)), are_masters_(are_masters) {}

  Tensor of(std::size_t piece) const override {
    return are_masters_ && has(piece) ? states_->weights_in_window(piece) : Tensor();
  }
  void read(std::size_t piece, const Tensor& weights, const Tensor& out) const override {
    if (!has(piece)) return MasterWeights::read(piece, weights, out);
    states_->read_weights(states_->layout().elements_of(piece), out);
  }
  void write(std::size_t piece, const Tensor& weights, const Tensor& in) const override {
    if (!has(piece)) return MasterWeights::write(piece, weights, in);
    states_->write_weights(states_->layout().elements_of(piece), in);
    if (are_masters_) cast_into(weights, in);
  }

 private:
  /// Frozen pieces stand behind those that are updated.
  [[nodiscard]] bool has(std::size_t piece) const { return piece < states_->layout().tensors(); }

  std::shared_ptr<OffloadedStates> states_;
  bool are_masters_;
};

bool has_masters(const nn::Parameter& parameter, const nn::Precision& precision) {
  return is_half(parameter.dtype()) && !is_half(precision.optimizer);
}

/// Spans of one track must not overlap, and transfers do not come in the order of their times.
class Tracks {
 public:
  /// The number, from 1, of a track that has nothing else at that time.
  std::size_t place(const storage::TransferTimes& times) {
    const auto free = std::find_if(
        tracks_.begin(), tracks_.end(), [&](const std::vector<storage::TransferTimes>& track) {
          return std::none_of(track.begin(), track.end(), [&](const storage::TransferTimes& other) {
            return other.begin < times.end && times.begin < other.end;
          });
        });
    const auto track = free == tracks_.end() ? tracks_.insert(free, {{}}) : free;
    track->push_back(times);
    if (track->size() > kRemembered) track->erase(track->begin());
    return static_cast<std::size_t>(track - tracks_.begin()) + 1;
  }

 private:
  static constexpr std::size_t kRemembered = 64;  // many more than run at once
  std::vector<std::vector<storage::TransferTimes>> tracks_;
};

}  // namespace

std::unique_ptr<optim::StateStore> offloaded_store(std::shared_ptr<OffloadedStates> states) {
  return std::make_unique<OffloadedStore>(std::move(states));
}

std::shared_ptr<OffloadedStates> offload_states(const OffloadSettings& settings,
                                                const std::vector<train::OwnedPiece>& pieces,
                                                const optim::UpdateRule& rule,
                                                const nn::Parameter& like,
                                                const nn::Precision& precision) {
  if (settings.what == Offload::kNone) return nullptr;
  const bool masters = has_masters(like, precision);
  ensure(!masters || !settings.offloads_parameters(),
         "weights that are offloaded have no master weights beside them");
  std::vector<OffloadedTensor> tensors;
  for (const train::OwnedPiece& piece : pieces) {
    tensors.push_back({.elements = piece.elements.size(),
                       .states = rule.states(train::weight_kind(*piece.parameter)).size()});
  }
  using Weights = OffloadedLayout::Weights;
  const DType dtype = accumulation_dtype(like.dtype());
  auto offloaded = std::make_shared<OffloadedStates>(
      settings, tensors, like.device(), dtype,
      settings.offloads_parameters() || masters ? Weights::kStored : Weights::kStay);
  for (std::size_t i = 0; masters && i < pieces.size(); ++i) {
    const Tensor initial = Tensor::empty(like.device(), {tensors[i].elements}, dtype);
    pieces[i].parameter->initial_values_into(initial, pieces[i].elements.begin);
    offloaded->write_weights(offloaded->layout().elements_of(i), initial);
  }
  return offloaded;
}

std::unique_ptr<train::MasterWeights> masters_of(const std::vector<train::OwnedPiece>& pieces,
                                                 const nn::Precision& precision,
                                                 const std::shared_ptr<OffloadedStates>& states) {
  if (!states || !states->layout().stores_weights()) {
    return std::make_unique<train::MasterWeights>(pieces, precision);
  }
  return std::make_unique<StoredWeights>(
      states, !pieces.empty() && has_masters(*pieces.front().parameter, precision));
}

void show_storage_on(OffloadedStates& states, trace::StepTimeline& timeline) {
  states.observe([&timeline, tracks = Tracks()](const StorageEvent& event) mutable {
    std::string track = "storage waiting";
    if (event.kind != StorageEvent::Kind::kWait) {
      const std::size_t number = tracks.place(event.times);
      track = number == 1 ? "storage" : fmt::format("storage {}", number);
    }
    timeline.add_span(track, event.name, event.times.begin, event.times.end);
  });
}

}  // namespace ultra::zero
