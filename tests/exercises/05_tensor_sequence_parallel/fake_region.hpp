#pragma once
/// @file
/// FakeRegion: a region without other ranks, which notes what is asked of it and when that is waited
/// for.

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/ops/elementwise.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel::test {

/// @brief What it returns is what it was given, times a factor that tells which function it went
/// through. What it may overwrite is NaN as soon as it has been given away.
class FakeRegion : public Region {
 public:
  // Powers of two: they change no rounding.
  static constexpr double kEnter = 2;
  static constexpr double kEnterBackward = 4;
  static constexpr double kLeave = 8;
  static constexpr double kLeaveBackward = 16;

  Pending enter(const Tensor& x) override { return travel("enter", x, kEnter); }
  Pending enter_backward(const Tensor& d_x) override {
    Pending pending = travel("enter_backward", d_x, kEnterBackward);
    d_x.fill(std::numeric_limits<double>::quiet_NaN());
    return pending;
  }
  Pending leave(const Tensor& y) override {
    Pending pending = travel("leave", y, kLeave);
    y.fill(std::numeric_limits<double>::quiet_NaN());
    return pending;
  }
  Pending leave_backward(const Tensor& d_y) override {
    return travel("leave_backward", d_y, kLeaveBackward);
  }

  /// @brief How often something happened: a function was called, "enter arrived", or a note.
  [[nodiscard]] std::size_t count(const std::string& event) const {
    return static_cast<std::size_t>(std::count(events_.begin(), events_.end(), event));
  }
  /// @brief When it happened first; after everything else when it did not.
  [[nodiscard]] std::size_t time_of(const std::string& event) const {
    return static_cast<std::size_t>(std::find(events_.begin(), events_.end(), event) -
                                    events_.begin());
  }
  [[nodiscard]] const std::vector<std::string>& events() const { return events_; }
  /// @brief Adds an event of the test's own.
  void note(const std::string& event) { events_.push_back(event); }
  void forget_events() { events_.clear(); }

  /// @brief Called when the rank begins to wait for what a function returned.
  std::function<void(const std::string& function)> on_arrival;

 private:
  Pending travel(const std::string& function, const Tensor& tensor, double factor) {
    events_.push_back(function);
    const Tensor result = tensor.clone();
    ops::scale_into(result, factor);
    const auto arrive = [this, function, result](const Tensor& /*memory*/) {
      events_.push_back(function + " arrived");
      if (on_arrival) on_arrival(function);
      return result;
    };
    return {Tensor::zeros(tensor.device(), {1}, tensor.dtype()), Work(), arrive};
  }

  std::vector<std::string> events_;
};

}  // namespace ultra::tensor_parallel::test
