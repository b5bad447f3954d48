#include "common/comm/device/staged_transport.hpp"

#include <optional>
#include <utility>

#include "common/comm/device/staged_collective.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm {
namespace {

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
