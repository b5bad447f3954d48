#include "common/train/report/rank_clock.hpp"

#include <algorithm>
#include <array>

#include "common/tensor/tensor.hpp"

namespace ultra::train {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kReadings = 8;

double seconds_now() { return Seconds(Clock::now().time_since_epoch()).count(); }

Clock::time_point moment_at(double seconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(Seconds(seconds)));
}

/// One number per message.
class NumberMessages {
 public:
  explicit NumberMessages(const Communicator& world) : world_(world) {}

  void send(double number, int peer) const {
    number_.fill(number);
    world_.send(number_, peer).wait();
  }
  [[nodiscard]] double receive(int peer) const {
    world_.recv(number_, peer).wait();
    return number_.span<double>()[0];
  }

 private:
  const Communicator& world_;
  Device device_ = Device::cpu();
  Tensor number_ = Tensor::zeros(device_, {1}, DType::kF64);
};

}  // namespace

double clock_offset(std::span<const ClockReading> readings) {
  const bool same_clock =
      std::all_of(readings.begin(), readings.end(), [](const ClockReading& reading) {
        return reading.asked <= reading.told && reading.told <= reading.answered;
      });
  if (same_clock) return 0.0;
  const auto shortest = std::min_element(readings.begin(), readings.end(),
                                         [](const ClockReading& a, const ClockReading& b) {
                                           return a.answered - a.asked < b.answered - b.asked;
                                         });
  return shortest->told - (shortest->asked + shortest->answered) / 2;
}

Clock::time_point common_moment(const Communicator& world) {
  const NumberMessages numbers(world);
  if (world.rank() == 0) {
    const double moment = seconds_now();
    for (int peer = 1; peer < world.size(); ++peer) {
      for (int i = 0; i < kReadings; ++i) {
        static_cast<void>(numbers.receive(peer));
        numbers.send(seconds_now(), peer);
      }
      numbers.send(moment, peer);
    }
    return moment_at(moment);
  }
  std::array<ClockReading, kReadings> readings;
  for (ClockReading& reading : readings) {
    reading.asked = seconds_now();
    numbers.send(0.0, 0);
    reading.told = numbers.receive(0);
    reading.answered = seconds_now();
  }
  return moment_at(numbers.receive(0) - clock_offset(readings));
}

}  // namespace ultra::train
