#include "common/comm/device/staged_collective.hpp"

#include <cstddef>
#include <optional>
#include <utility>

#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm {
namespace {

/// A contiguous tensor of the same size in the host's pinned memory.
Tensor host_copy_of(const Tensor& tensor) {
  return Tensor::empty(tensor.device().host(), {tensor.numel()}, tensor.dtype(),
                       MemoryCategory::kCommunication);
}

/// The copy of `part`, which lies in `whole`, in the copy of `whole`.
Tensor part_of(const Tensor& host_whole, const Tensor& whole, const Tensor& part) {
  const auto bytes = static_cast<std::size_t>(memory_of(part).data() - memory_of(whole).data());
  const std::size_t begin = bytes / size_of(part.dtype());
  return host_whole.slice(0, {begin, begin + part.numel()});
}

/// The same call on the host, in place where the device's is.
CollectiveCall on_host(const CollectiveCall& call) {
  CollectiveCall host = call;
  const Tensor& input = call.input;
  const Tensor& output = call.output;
  if (input.defined() && output.defined() && overlap(input, output)) {
    const bool larger_input = input.numel() >= output.numel();
    const Tensor& whole = larger_input ? input : output;
    const Tensor host_whole = host_copy_of(whole);
    host.input = part_of(host_whole, whole, input);
    host.output = part_of(host_whole, whole, output);
    return host;
  }
  if (input.defined()) host.input = host_copy_of(input);
  if (output.defined()) host.output = host_copy_of(output);
  return host;
}

class StagedCollective final : public Operation {
 public:
  StagedCollective(const CollectiveCall& call, Transport& inner, std::shared_ptr<Staging> staging,
                   Checking checking)
      : Operation(call.info, Order::kInTurn),
        staging_(std::move(staging)),
        call_(call),
        host_call_(on_host(call)),
        part_(device_part_of(call_)),
        inner_(inner.native(host_call_, checking)) {}
  StagedCollective(const StagedCollective&) = delete;
  StagedCollective& operator=(const StagedCollective&) = delete;
  ~StagedCollective() override {
    if (part_.exists() && awaited_) keep(host_call_.input, copied_);
  }

  bool advance() override {
    if (!begun_) begin();
    if (awaited_) {
      if (!is_there({.device = part_.device(), .ready = copied_})) return false;
      awaited_.reset();
    }
    if (!inner_->advance()) return false;
    finish();
    return true;
  }

  std::string waits_for() const override {
    return awaited_ ? "the device has not computed what is sent" : inner_->waits_for();
  }
  std::size_t sent_bytes() const override { return inner_->sent_bytes(); }
  const DevicePart* device_part() const override { return &part_; }

 private:
  void begin() {
    begun_ = true;
    part_.device()->after(part_.ready());
    awaited_.emplace(staging_->polling());
    const std::span<std::byte> from = memory_of(call_.input);
    copied_ = Staging::download(*part_.device(), bytes_of_host(host_call_.input), from.data(),
                                from.size());
  }

  void finish() {
    const std::span<std::byte> to = memory_of(call_.output);
    staging_->upload(*part_.device(), to.data(), bytes_of_host(host_call_.output), to.size());
    part_.ends_at(part_.device()->record());
  }

  void keep(const Tensor& host, const gpu::Event& until) {
    staging_->keep(*part_.device(), until, bytes_of_host(host));
  }

  /// The tensor's memory, which the tensor keeps alive.
  static HostBytes bytes_of_host(const Tensor& tensor) {
    const auto owner = std::make_shared<Tensor>(tensor);
    return {owner, bytes_of(tensor).data()};
  }

  std::shared_ptr<Staging> staging_;
  CollectiveCall call_;
  CollectiveCall host_call_;
  DevicePart part_;
  std::optional<Polled> awaited_;
  gpu::Event copied_;
  bool begun_ = false;
  std::shared_ptr<Operation> inner_;
};

}  // namespace

std::shared_ptr<Operation> make_staged(const CollectiveCall& call, Transport& inner,
                                       std::shared_ptr<Staging> staging, Checking checking) {
  return std::make_shared<StagedCollective>(call, inner, std::move(staging), checking);
}

}  // namespace ultra::comm
