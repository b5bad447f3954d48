// A launch carries a list of tensors, and of the block with which each begins. Threads take four elements
// at a time from the first place on where all operands allow it.

#include "kernels/generic/elements/adamw.hpp"

#include <cmath>
#include <cstdint>

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr int kPacksOfThread = 4;
constexpr int kPacksOfBlock = kThreads * kPacksOfThread;
constexpr unsigned char kNever = 255;

// Elements of a pack; f64 has none (kNever).
template <typename T>
constexpr int kWidth = sizeof(T) == sizeof(float) ? kSeveral : 1;

// AdamWTensor in 64 bytes.
struct Entry {
  void* value;
  const void* grad;
  void* first_moment;
  void* second_moment;
  void* rounded;
  std::size_t count;
  unsigned first_block;
  Number value_number;
  Number grad_number;
  Number first_number;
  Number second_number;
  Number rounded_number;
  bool decays;
  unsigned char head;  // elements before the first pack; kNever: there are no packs
};

struct TensorList {
  int count;
  Entry entries[kTensorsOfLaunch];
};

// What stays the same for all elements of a step.
template <typename T>
struct AdamWConstants {
  T beta1;
  T beta2;
  T keep1;
  T keep2;
  T gradient_scale;
  T decay;
  T step_size;
  T root_scale;
  T epsilon;
};
static_assert(sizeof(TensorList) + sizeof(AdamWConstants<double>) <= 4096, "what a launch carries");

// Every sum is one rounding with the product before it: nothing is left for a compiler to contract in
// one way here, and in another one there.
template <typename T>
__device__ __forceinline__ void update_element(T& value, T gradient, T& first, T& second, T decay,
                                               const AdamWConstants<T>& c) {
  const T g = gradient * c.gradient_scale;
  first = multiply_add(c.beta1, first, c.keep1 * g);
  second = multiply_add(c.beta2, second, c.keep2 * g * g);
  const T denominator = multiply_add(square_root(second), c.root_scale, c.epsilon);
  value = multiply_add(decay, value, -(c.step_size * first / denominator));
}

template <int width, typename T>
__device__ __forceinline__ void update(const Entry& of, std::size_t index,
                                       const AdamWConstants<T>& c) {
  const Target value{of.value_number, of.value};
  const Target first_moment{of.first_number, of.first_moment};
  const Target second_moment{of.second_number, of.second_moment};
  T gradients[width];
  T values[width];
  T first[width];
  T second[width];
  load(value, index, values);
  load(first_moment, index, first);
  load(second_moment, index, second);
  load(Source{of.grad_number, of.grad}, index, gradients);  // last: bf16 is converted at once
#pragma unroll
  for (int i = 0; i < width; ++i) {
    update_element(values[i], gradients[i], first[i], second[i], of.decays ? c.decay : T(1), c);
  }
  store(first_moment, index, first);
  store(second_moment, index, second);
  store(value, index, values);
  if (of.rounded != nullptr) {
    store(Target{of.rounded_number, of.rounded}, index, values);
  }
}

// The entry whose blocks include `block`: the last that does not begin behind it.
__device__ __forceinline__ int entry_of(const TensorList& list, unsigned block) {
  int low = 0;
  int high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.entries[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__host__ __device__ constexpr std::size_t packs_of(const Entry& of) {
  return of.head == kNever ? 0 : (of.count - of.head) / kSeveral;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kWidth<T>)
    adamw_kernel(const TensorList list, const AdamWConstants<T> constants) {
  const Entry of = list.entries[entry_of(list, blockIdx.x)];
  const std::size_t packs = packs_of(of);
  const std::size_t begin = std::size_t{blockIdx.x - of.first_block} * kPacksOfBlock + threadIdx.x;
  for (int turn = 0; turn < kPacksOfThread; ++turn) {
    if (const std::size_t pack = begin + turn * kThreads; pack < packs) {
      update<kWidth<T>>(of, of.head + pack * kWidth<T>, constants);
    }
  }
  // A tensor without packs has this many in a block; of others the first block takes what is left.
  constexpr std::size_t kElementsOfBlock = std::size_t{kPacksOfBlock} * kSeveral;
  const bool has_packs = of.head != kNever;
  const std::size_t rest = of.count - packs * kSeveral;
  const std::size_t first = std::size_t{blockIdx.x - of.first_block} * kElementsOfBlock;
  const std::size_t last = first + kElementsOfBlock < rest ? first + kElementsOfBlock : rest;
  for (std::size_t i = first + threadIdx.x; i < last; i += kThreads) {
    const bool is_behind = has_packs && i >= of.head;
    update<1>(of, is_behind ? i + packs * kSeveral : i, constants);
  }
}

template <typename T>
AdamWConstants<T> constants_of(const AdamWStep& of) {
  const double correction1 = 1.0 - std::pow(of.beta1, of.step);
  const double correction2 = 1.0 - std::pow(of.beta2, of.step);
  return {.beta1 = static_cast<T>(of.beta1),
          .beta2 = static_cast<T>(of.beta2),
          .keep1 = static_cast<T>(1.0 - of.beta1),
          .keep2 = static_cast<T>(1.0 - of.beta2),
          .gradient_scale = static_cast<T>(of.gradient_scale),
          .decay = static_cast<T>(1.0 - of.learning_rate * of.weight_decay),
          .step_size = static_cast<T>(of.learning_rate / correction1),
          .root_scale = static_cast<T>(1.0 / std::sqrt(correction2)),
          .epsilon = static_cast<T>(of.epsilon)};
}

// Elements before the first one of which all operands have kSeveral at a multiple of their size.
unsigned char head_of(const AdamWTensor& of) {
  int head = -1;
  for (const Source& each : {Source(of.value), of.grad, Source(of.first_moment),
                             Source(of.second_moment), Source(of.rounded)}) {
    if (each.data == nullptr) {
      continue;
    }
    const std::size_t element = reinterpret_cast<std::uintptr_t>(each.data) / size_of(each.number);
    const int before = static_cast<int>((kSeveral - element % kSeveral) % kSeveral);
    if (each.number == Number::kF64 || (head >= 0 && head != before)) {
      return kNever;
    }
    head = before;
  }
  return of.count < static_cast<std::size_t>(head) ? kNever : static_cast<unsigned char>(head);
}

Entry entry_of(const AdamWTensor& of, unsigned first_block) {
  return {.value = of.value.data,
          .grad = of.grad.data,
          .first_moment = of.first_moment.data,
          .second_moment = of.second_moment.data,
          .rounded = of.rounded.data,
          .count = of.count,
          .first_block = first_block,
          .value_number = of.value.number,
          .grad_number = of.grad.number,
          .first_number = of.first_moment.number,
          .second_number = of.second_moment.number,
          .rounded_number = of.rounded.number,
          .decays = of.decays,
          .head = head_of(of)};
}

template <typename T>
void launch_lists(const AdamWTensor* tensors, std::size_t count, const AdamWStep& step,
                  const Queue& queue) {
  TensorList list{};
  unsigned blocks = 0;
  const auto launch_list = [&] {
    if (list.count > 0) {
      launch(adamw_kernel<T>,
             {.name = "adamw", .grid = {.x = blocks}, .block = {.x = kThreads}, .queue = queue},
             list, constants_of<T>(step));
    }
    list.count = 0;
    blocks = 0;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const AdamWTensor& of = tensors[i];
    if (of.count == 0 || sums_in_f64(of.value.number) != (sizeof(T) == sizeof(double))) {
      continue;
    }
    list.entries[list.count++] = entry_of(of, blocks);
    blocks += ceil_div(of.count, std::size_t{kPacksOfBlock} * kSeveral);
    if (list.count == kTensorsOfLaunch) {
      launch_list();
    }
  }
  launch_list();
}

}  // namespace

template <>
void adamw<kExecutor>(const AdamWTensor* tensors, std::size_t count, const AdamWStep& step,
                      const Queue& queue) {
  launch_lists<float>(tensors, count, step, queue);
  launch_lists<double>(tensors, count, step, queue);
}

}  // namespace ultra::kernels::generic
