#include "common/comm/device/staged_transport.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "common/comm/device/staging.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/comm/transport.hpp"

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

/// The collective that `inner` does natively with copies of the tensors on the host.
///
/// Ends when the result is on its way back to the device. Memory: pinned copies of input and output.
std::shared_ptr<Operation> make_staged(const CollectiveCall& call, Transport& inner,
                                       std::shared_ptr<Staging> staging, Checking checking) {
  return std::make_shared<StagedCollective>(call, inner, std::move(staging), checking);
}

std::span<std::byte> span_of(const HostBytes& bytes, std::size_t count) {
  return {bytes.get(), count};
}

class StagedSend final : public Request {
 public:
  StagedSend(Transport& inner, std::shared_ptr<Staging> staging, const Parcel& parcel, int peer,
             Tag tag)
      : inner_(inner),
        staging_(std::move(staging)),
        awaited_(staging_->polling()),
        parcel_(parcel),
        peer_(peer),
        tag_(tag),
        bytes_(Staging::take(*parcel.place.device, parcel.memory.size())) {
    const DeviceMemory& device = *parcel_.place.device;
    device.after(parcel_.place.ready);
    copied_ = Staging::download(device, bytes_, parcel_.memory.data(), parcel_.memory.size());
  }
  StagedSend(const StagedSend&) = delete;
  StagedSend& operator=(const StagedSend&) = delete;
  ~StagedSend() override {
    if (!request_) staging_->keep(*parcel_.place.device, copied_, bytes_);
  }

  bool test() override {
    if (!request_) {
      if (!is_there({.device = parcel_.place.device, .ready = copied_})) return false;
      awaited_.end();
      request_ = inner_.isend({span_of(bytes_, parcel_.memory.size()), bytes_}, peer_, tag_);
    }
    return request_->test();
  }
  gpu::Event ended_at() const override { return copied_; }

 private:
  Transport& inner_;
  std::shared_ptr<Staging> staging_;
  Polled awaited_;
  Parcel parcel_;
  int peer_;
  Tag tag_;
  HostBytes bytes_;
  gpu::Event copied_;
  std::unique_ptr<Request> request_;
};

class StagedReceive final : public Request {
 public:
  StagedReceive(Transport& inner, std::shared_ptr<Staging> staging, const Landing& landing,
                int peer, Tag tag)
      : staging_(std::move(staging)),
        landing_(landing),
        bytes_(Staging::take(*landing.place.device, landing.memory.size())),
        request_(inner.irecv({span_of(bytes_, landing.memory.size()), {}, bytes_}, peer, tag)) {}

  bool test() override {
    if (landed_) return true;
    if (!request_->test()) return false;
    land();
    landed_ = true;
    return true;
  }
  gpu::Event ended_at() const override { return filled_; }

 private:
  void land() {
    const DeviceMemory& device = *landing_.place.device;
    const std::size_t size = landing_.memory.size();
    device.after(landing_.place.ready);
    if (landing_.combine && size > 0) {
      const gpu::StreamScope scope(gpu::StreamRole::kCommunication);
      const DType dtype = landing_.combine->dtype;
      const Tensor arrived = Tensor::empty(device.device(), {size / size_of(dtype)}, dtype,
                                           MemoryCategory::kCommunication);
      staging_->upload(device, arrived.address(), bytes_, size);
      device.combine(*landing_.combine, landing_.memory.data(), arrived.address(), arrived.numel());
    } else {
      staging_->upload(device, landing_.memory.data(), bytes_, size);
    }
    filled_ = device.record();
  }

  std::shared_ptr<Staging> staging_;
  Landing landing_;
  HostBytes bytes_;
  gpu::Event filled_;
  bool landed_ = false;
  std::unique_ptr<Request> request_;
};

class StagedTransport final : public Transport {
 public:
  StagedTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Staging> staging)
      : inner_(std::move(inner)), staging_(std::move(staging)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int world_rank(int member) const override { return inner_->world_rank(member); }

  std::unique_ptr<Request> isend(const Parcel& parcel, int peer, Tag tag) override {
    if (!parcel.place.device) return inner_->isend(parcel, peer, tag);
    return std::make_unique<StagedSend>(*inner_, staging_, parcel, peer, tag);
  }
  std::unique_ptr<Request> irecv(const Landing& landing, int peer, Tag tag) override {
    if (!landing.place.device) return inner_->irecv(landing, peer, tag);
    return std::make_unique<StagedReceive>(*inner_, staging_, landing, peer, tag);
  }
  std::unique_ptr<Transport> subgroup(std::span<const int> members,
                                      std::uint32_t sequence) override {
    return staged(inner_->subgroup(members, sequence), staging_);
  }
  std::shared_ptr<Operation> native(const CollectiveCall& call, Checking checking) override {
    if (call.info.device == DeviceKind::kCpu) return inner_->native(call, checking);
    return make_staged(call, *inner_, staging_, checking);
  }

 private:
  std::shared_ptr<Transport> inner_;
  std::shared_ptr<Staging> staging_;
};

}  // namespace

std::unique_ptr<Transport> staged(std::shared_ptr<Transport> inner,
                                  std::shared_ptr<Staging> staging) {
  return std::make_unique<StagedTransport>(std::move(inner), std::move(staging));
}

}  // namespace ultra::comm
