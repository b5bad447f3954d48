#include "common/comm/links/point_to_point.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/comm/engine/roll_call.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm {
namespace {

class Message : public Operation {
 public:
  Message(OperationInfo info, Tensor data, std::shared_ptr<Transport> transport, Tag tag)
      : Operation(std::move(info), Order::kAnyTime),
        data_(std::move(data)),
        transport_(std::move(transport)),
        tag_(tag),
        part_(device_part_of(data_, this->info())) {}

  bool advance() override {
    if (!begun_) begin();
    if (!request_->test()) return false;
    if (part_.exists()) part_.ends_at(request_->ended_at());
    return true;
  }

  const DevicePart* device_part() const override { return part_.exists() ? &part_ : nullptr; }

  std::string waits_for() const override {
    return have({info().root}, world_ranks(*transport_),
                sends() ? "not taken the message" : "not sent");
  }

  std::size_t sent_bytes() const override {
    return sends() && info().root != transport_->rank() ? data_.nbytes() : 0;
  }

  void check_device() override { transport_->check_device(); }
  void abort() override { transport_->abort(); }

 private:
  bool sends() const { return info().kind == OpKind::kSend; }

  void begin() {
    begun_ = true;
    const auto owner = std::make_shared<Tensor>(data_);
    const Place place{part_.device(), part_.ready()};
    request_ = sends() ? transport_->isend({memory_of(data_), owner, place}, info().root, tag_)
                       : transport_->irecv({memory_of(data_), {}, owner, place}, info().root, tag_);
  }

  Tensor data_;
  std::shared_ptr<Transport> transport_;
  Tag tag_;
  DevicePart part_;
  bool begun_ = false;
  std::unique_ptr<Request> request_;  // last: withdrawn before the memory goes
};

class Shift : public Operation {
 public:
  Shift(OperationInfo info, std::shared_ptr<Operation> send, std::shared_ptr<Operation> receive)
      : Operation(std::move(info), Order::kAnyTime),
        send_(std::move(send)),
        receive_(std::move(receive)),
        part_(send_->device_part() != nullptr ? *send_->device_part() : DevicePart()) {}

  bool advance() override {
    received_ = received_ || receive_->advance();
    sent_ = sent_ || send_->advance();
    if (!received_ || !sent_) return false;
    if (part_.exists()) {
      part_.ends_with(*send_->device_part());
      part_.ends_with(*receive_->device_part());
    }
    return true;
  }

  const DevicePart* device_part() const override { return part_.exists() ? &part_ : nullptr; }

  std::string waits_for() const override {
    if (sent_) return receive_->waits_for();
    return received_ ? send_->waits_for()
                     : fmt::format("{}, {}", send_->waits_for(), receive_->waits_for());
  }

  std::size_t sent_bytes() const override { return send_->sent_bytes(); }

  void check_device() override { send_->check_device(); }
  void abort() override { send_->abort(); }

 private:
  std::shared_ptr<Operation> send_;
  std::shared_ptr<Operation> receive_;
  DevicePart part_;
  bool sent_ = false;
  bool received_ = false;
};

}  // namespace

DevicePart device_part_of(const Tensor& data, const OperationInfo& info) {
  if (info.device == DeviceKind::kCpu) return {};
  return DevicePart({data}, stream_name(info));
}

std::shared_ptr<Operation> make_message(OperationInfo info, Tensor data,
                                        std::shared_ptr<Transport> transport, Tag tag) {
  return std::make_shared<Message>(std::move(info), std::move(data), std::move(transport), tag);
}

std::shared_ptr<Operation> make_shift(OperationInfo info, std::shared_ptr<Operation> send,
                                      std::shared_ptr<Operation> receive) {
  return std::make_shared<Shift>(std::move(info), std::move(send), std::move(receive));
}

}  // namespace ultra::comm
