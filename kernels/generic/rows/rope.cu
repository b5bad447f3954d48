// A thread for each pair of elements.

#include "kernels/generic/attention/positions.cuh"
#include "kernels/generic/numbers.cuh"
#include "kernels/generic/rows/rows.hpp"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

template <typename T>
__global__ void rope_kernel(Rope of, std::size_t count) {
  const std::size_t thread = global_thread();
  if (thread >= count) {
    return;
  }
  const std::size_t pair = thread % of.half;
  const std::size_t head = thread / of.half;
  const auto row = static_cast<int>(head / of.heads % of.seq);
  const std::size_t angle = position_of(of.positions, row) * of.half + pair;
  const T cosine = load<T>(of.cosines, angle);
  const T sine = static_cast<T>(of.sign) * load<T>(of.sines, angle);
  const std::size_t first = head * 2 * of.half + pair;
  const std::size_t second = first + of.half;
  const T a = load<T>(of.x, first);
  const T c = load<T>(of.x, second);
  store(of.x, first, a * cosine - c * sine);
  store(of.x, second, c * cosine + a * sine);
}

}  // namespace

template <>
void rope<kExecutor>(const Rope& of, const Queue& queue) {
  const std::size_t count = of.batch * of.seq * of.heads * of.half;
  launch_each(sums_in_f64(of.x.number) ? rope_kernel<double> : rope_kernel<float>, "rope", count,
              queue, of, count);
}

}  // namespace ultra::kernels::generic
