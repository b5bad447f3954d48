// Exercise 03.6: the overlap condition.
//
// Both answers compare the same two times, of the link and of the processor. The ratio does it for
// one parameter, because the number of parameters is a factor of both; the prediction for buckets,
// because a link cannot begin before there is something to send.
#include "chapters/03_data_parallel/overlap_condition.hpp"

#include <algorithm>

#include "chapters/02_collectives/simulator/cost_model.hpp"

namespace ultra::data_parallel {

// [region ratio]
double overlap_ratio(int replicas, double tokens, double element_bytes, double flops,
                     double bytes_per_second) {
  const double n = replicas;
  const double link_seconds = 2.0 * (n - 1.0) / n * element_bytes / bytes_per_second;
  const double backward_seconds = 4.0 * tokens / flops;
  return link_seconds / backward_seconds;
}
// [/region]

// [region prediction]
OverlapPrediction predict_overlap(const OverlapCase& overlap) {
  const auto buckets = static_cast<double>(overlap.buckets);
  const double bucket_bytes = overlap.gradient_bytes / buckets;
  const double bucket_seconds =
      collectives::ring_all_reduce_cost(overlap.replicas, overlap.link).seconds(bucket_bytes);

  const double communication = buckets * bucket_seconds;
  const double after_the_first = overlap.backward_seconds * (buckets - 1.0) / buckets;
  const double exposed = std::max(bucket_seconds, communication - after_the_first);
  return {.bucket_seconds = bucket_seconds,
          .communication_seconds = communication,
          .exposed_seconds = exposed,
          .hidden_seconds = communication - exposed};
}
// [/region]

}  // namespace ultra::data_parallel
