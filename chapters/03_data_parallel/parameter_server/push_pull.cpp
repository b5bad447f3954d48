#include "chapters/03_data_parallel/parameter_server/push_pull.hpp"

#include <map>
#include <utility>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "chapters/03_data_parallel/parameter_server/send_queue.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {
namespace {

/// One bucket per parameter, in backward order.
std::vector<Bucket> one_by_one(const ServedModel& served) {
  std::vector<std::size_t> counts;
  for (const ServedParameter& parameter : served.parameters) counts.push_back(parameter.count);
  return assign_buckets(counts, 0);
}

void wait_all(std::vector<Work>& works) {
  for (Work& work : works) work.wait();
  works.clear();
}

}  // namespace

class PushPull::Impl {
 public:
  Impl(nn::Model& model, const ServerWorld& servers, const ServedModel& served, Push when)
      : parameters_(model.parameters()),
        servers_(servers),
        served_(served),
        early_(servers.settings.priority != Priority::kNone && when == Push::kByPriority),
        buckets_(one_by_one(served)),
        slices_of_(served.parameters.size()),
        stage_of_(stages_of(model)),
        pulls_(model.config().num_layers + 2),
        due_pulls_(pulls_.size()),
        ready_(buckets_, [this](std::size_t bucket) { gradient_ready(bucket); }) {
    ensure(parameters_.size() == served.parameters.size(), "the servers know the same parameters");
    if (servers.settings.priority == Priority::kPriority) {
      queue_ = std::make_shared<SendQueue>(kSlicesOnTheirWay);
    }
    for (const ServedParameter& parameter : served.parameters) {
      named_.push_back(servers.world.labeled(parameter.name));
    }
    for (std::size_t s = 0; s < served.slices.size(); ++s) {
      slices_of_[served.slices[s].parameter].push_back(s);
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The parts of the model are the stages: a part needs its weights.
  void pass_forward(const nn::PartCall& call) {
    wait_for_stage(call.part);
    // When all weights are here, the servers have all gradients: this lets go of their memory.
    if (call.part == last_stage()) wait_all(due_pushes_);
    call.compute();
  }

  // [region push_pull_begin]
  void step_begins() {
    ++step_;
    if (servers_.settings.priority == Priority::kNone) {
      drain();
    } else {
      wait_for_stage(0);  // the embedding's weights
    }
    ready_.restart();
  }
  // [/region]

  void finish() { ready_.expect_all_flushed(); }

  void push() {
    if (!early_) {
      for (const Bucket& bucket : buckets_) push_and_pull(bucket.parameters.front());
    }
    std::swap(pushes_, due_pushes_);
    std::swap(pulls_, due_pulls_);
  }

  void completed(std::size_t parameter) { ready_.ready(parameter); }

  void drain() {
    for (std::vector<Work>& pulls : due_pulls_) wait_all(pulls);
    wait_all(due_pushes_);
  }

 private:
  [[nodiscard]] std::size_t last_stage() const { return due_pulls_.size() - 1; }

  /// When a forward pass needs each parameter: 0 in front of the blocks, 1 in the first of them,
  /// ...
  static std::vector<std::size_t> stages_of(const nn::Model& model) {
    std::map<const nn::Parameter*, std::size_t> of_blocks;
    for (std::size_t layer = 0; layer < model.config().num_layers; ++layer) {
      for (const nn::Parameter* parameter : model.block_parameters(layer)) {
        of_blocks[parameter] = layer + 1;
      }
    }
    std::vector<std::size_t> stages;
    for (const nn::Parameter* parameter : model.parameters()) {
      const auto found = of_blocks.find(parameter);
      const std::size_t outside =
          stages.empty() || stages.back() == 0 ? 0 : model.config().num_layers + 1;
      stages.push_back(found != of_blocks.end() ? found->second : outside);
    }
    return stages;
  }

  /// A block that is recomputed comes here again in its backward pass, and finds nothing due.
  void wait_for_stage(std::size_t stage) { wait_all(due_pulls_[stage]); }

  void gradient_ready(std::size_t bucket) {
    if (early_) push_and_pull(buckets_[bucket].parameters.front());
  }

  // [region push_and_pull]
  /// Sends the gradient of a parameter away, and asks for the weights that come of it: nobody reads
  /// the old ones any more.
  void push_and_pull(std::size_t p) {
    const nn::Parameter& parameter = *parameters_[p];
    for (const std::size_t s : slices_of_[p]) {
      const Slice& slice = served_.slices[s];
      const int server = servers_.rank_of_server(slice.server);
      pushes_.push_back(send_in_turn(named_[p], elements_of(slice, parameter.grad()), server,
                                     push_name(served_, step_, s),
                                     {.queue = queue_, .priority = checked_cast<int>(s)}));
      pulls_[stage_of_[p]].push_back(named_[p].recv(elements_of(slice, parameter.value()), server,
                                                    pull_name(served_, step_, s)));
    }
  }
  // [/region]

  std::vector<nn::Parameter*> parameters_;
  ServerWorld servers_;
  ServedModel served_;
  bool early_;  // while the backward pass runs
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> slices_of_;  // by parameter
  std::vector<std::size_t> stage_of_;                // by parameter
  std::vector<Communicator> named_;                  // by parameter
  std::shared_ptr<SendQueue> queue_;                 // null: each send begins at once
  std::size_t step_ = 0;                             // 1 for the first
  // Of this step, and of the one before, which the forward passes of this one wait for.
  std::vector<Work> pushes_;
  std::vector<Work> due_pushes_;
  std::vector<std::vector<Work>> pulls_;  // by stage
  std::vector<std::vector<Work>> due_pulls_;
  BucketQueue ready_;  // one parameter a bucket: pushed in backward order
};

PushPull::PushPull(nn::Model& model, const ServerWorld& servers, const ServedModel& served,
                   Push when)
    : impl_(std::make_unique<Impl>(model, servers, served, when)),
      hook_(model.add_part_hook(
          {.forward = [impl = impl_.get()](const auto& call) { impl->pass_forward(call); }})) {}

PushPull::~PushPull() = default;

void PushPull::step_begins() { impl_->step_begins(); }
void PushPull::completed(std::size_t parameter) { impl_->completed(parameter); }
void PushPull::finish() { impl_->finish(); }
void PushPull::push() { impl_->push(); }
void PushPull::drain() { impl_->drain(); }

}  // namespace ultra::data_parallel
