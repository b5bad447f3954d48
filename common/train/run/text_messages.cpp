#include "common/train/run/text_messages.hpp"

#include <cstdint>
#include <cstring>

#include "common/base/numeric.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::train {
namespace {

/// Buffers of a pool of its own: the rank's memory figures are those of training.
class TextMessages {
 public:
  explicit TextMessages(const Communicator& world) : world_(world) {}

  void send(const std::string& text, int peer) const {
    length_.fill(static_cast<double>(text.size()));
    world_.send(length_, peer).wait();
    const Tensor words = words_for(text.size());
    std::memcpy(words.data<std::int32_t>(), text.data(), text.size());
    world_.send(words, peer).wait();
  }

  [[nodiscard]] std::string receive(int peer) const {
    world_.recv(length_, peer).wait();
    const auto length = static_cast<std::size_t>(length_.span<double>()[0]);
    const Tensor words = words_for(length);
    world_.recv(words, peer).wait();
    std::string text(length, '\0');
    std::memcpy(text.data(), words.data<std::int32_t>(), length);
    return text;
  }

 private:
  [[nodiscard]] Tensor words_for(std::size_t bytes) const {
    return Tensor::zeros(device_, {ceil_div(bytes, sizeof(std::int32_t))}, DType::kI32);
  }

  const Communicator& world_;
  Device device_ = Device::cpu();
  Tensor length_ = Tensor::zeros(device_, {1}, DType::kF64);  // exact up to 2^53 bytes
};

}  // namespace

std::vector<std::string> gather_texts(const Communicator& world, const std::string& text) {
  const TextMessages messages(world);
  if (world.rank() != 0) {
    messages.send(text, 0);
    return {};
  }
  std::vector<std::string> texts{text};
  for (int rank = 1; rank < world.size(); ++rank) texts.push_back(messages.receive(rank));
  return texts;
}

std::string broadcast_text(const Communicator& world, const std::string& text) {
  const TextMessages messages(world);
  if (world.rank() != 0) return messages.receive(0);
  for (int rank = 1; rank < world.size(); ++rank) messages.send(text, rank);
  return text;
}

}  // namespace ultra::train
