/* A perceptron with ReLU that ggml-opt trains by SGD: static graphs, gradients by ggml's own reverse derivative. */
#include "ggml-backend.h"
#include "ggml-opt.h"
#include "ggml.h"

#include <string>
#include <vector>

namespace {

struct Model {
    ggml_backend_t backend;
    ggml_backend_sched_t scheduler;
    ggml_context *fixed, *computed;
    std::vector<ggml_tensor *> parameters; // weight [out, in] and bias of each layer
    ggml_tensor *x;
    ggml_opt_context_t optimiser;
    ggml_opt_optimizer_params rates;
};

ggml_backend_reg_t cpu()
{
    return ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

ggml_opt_optimizer_params rates_of(void *model)
{
    return static_cast<Model *>(model)->rates;
}

} // namespace

extern "C" {

const char *features()
{
    static std::string names;
    auto get = reinterpret_cast<ggml_backend_get_features_t>(ggml_backend_reg_get_proc_address(cpu(), "ggml_backend_get_features"));
    names.clear();
    for (ggml_backend_feature *f = get(cpu()); f->name; f++)
        names += std::string(f->name) + " ";
    return names.c_str();
}

Model *create(int count, const int64_t *widths, int64_t batch, int is_mse, float rate, int threads)
{
    Model &m = *new Model{};
    m.backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(cpu(), "ggml_backend_set_n_threads"));
    set_threads(m.backend, threads);
    m.scheduler = ggml_backend_sched_new(&m.backend, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, true);

    m.fixed = ggml_init({ggml_tensor_overhead() * 64, nullptr, true});
    size_t tensors = GGML_DEFAULT_GRAPH_SIZE * ggml_tensor_overhead();
    m.computed = ggml_init({tensors + 3 * ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, true), nullptr, true});
    m.x = ggml_new_tensor_2d(m.fixed, GGML_TYPE_F32, widths[0], batch);
    ggml_tensor *y = m.x;
    for (int k = 1; k < count; k++) {
        ggml_tensor *weight = ggml_new_tensor_2d(m.fixed, GGML_TYPE_F32, widths[k - 1], widths[k]);
        ggml_tensor *bias = ggml_new_tensor_1d(m.fixed, GGML_TYPE_F32, widths[k]);
        ggml_set_param(weight);
        ggml_set_param(bias);
        m.parameters.insert(m.parameters.end(), {weight, bias});
        y = ggml_add(m.computed, ggml_mul_mat(m.computed, weight, y), bias);
        if (k + 1 < count)
            y = ggml_relu(m.computed, y);
    }
    ggml_backend_alloc_ctx_tensors(m.fixed, m.backend);

    ggml_opt_params options = ggml_opt_default_params(
        m.scheduler, is_mse ? GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR : GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    options.ctx_compute = m.computed;
    options.inputs = m.x;
    options.outputs = y;
    options.optimizer = GGML_OPT_OPTIMIZER_TYPE_SGD;
    m.rates = ggml_opt_get_default_optimizer_params(nullptr);
    m.rates.sgd = {rate, 0};
    options.get_opt_pars = rates_of;
    options.get_opt_pars_ud = &m;
    m.optimiser = ggml_opt_init(options);
    return &m;
}

void write_parameters(Model *m, const float **arrays)
{
    for (size_t k = 0; k < m->parameters.size(); k++)
        ggml_backend_tensor_set(m->parameters[k], arrays[k], 0, ggml_nbytes(m->parameters[k]));
}

void read_parameters(Model *m, float **arrays)
{
    for (size_t k = 0; k < m->parameters.size(); k++)
        ggml_backend_tensor_get(m->parameters[k], arrays[k], 0, ggml_nbytes(m->parameters[k]));
}

/* Steps on one batch after another, with the loss before each. */
void steps(Model *m, int64_t count, const char *x, const char *y, float *losses)
{
    ggml_tensor *labels = ggml_opt_labels(m->optimiser);
    for (int64_t k = 0; k < count; k++) {
        ggml_opt_alloc(m->optimiser, true);
        ggml_backend_tensor_set(m->x, x + k * ggml_nbytes(m->x), 0, ggml_nbytes(m->x));
        ggml_backend_tensor_set(labels, y + k * ggml_nbytes(labels), 0, ggml_nbytes(labels));
        ggml_opt_eval(m->optimiser, nullptr);
        ggml_backend_tensor_get(ggml_opt_loss(m->optimiser), losses + k, 0, sizeof *losses);
    }
}
}
