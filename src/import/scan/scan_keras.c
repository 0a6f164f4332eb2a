/* SPDX-License-Identifier: Apache-2.0 */
/* What Keras would make of an object of a configuration: see scan_keras.h. */
#include "scan_keras.h"

#include "pickle_names.h"
#include "sort.h"
#include "text.h"

#include <string.h>

#define KERAS_NAME 256 /* of a module or a name; a longer one is cut */

static const char keras_code[] = "a layer is %q: Keras would run the code that it is made of";
static const char keras_torch[] = "a layer is %q: Keras would load the pickle that is in it";
static const char keras_program[] = "a layer is %q: Keras would load a program of TensorFlow from somewhere else";
static const char keras_reads[] = "Keras would read the vocabulary of a layer from %q, a file or a URL";
static const char keras_imports[] = "the configuration names %q, which Keras before 3.9 would import, and call";
static const char keras_tool[] =
    "the configuration names %q, a function of Keras that is no part of a model: some download or write files";
static const char keras_custom[] =
    "the configuration names %q, which is not part of Keras: nobody can tell what the program has under that name";

/* Classes that a configuration may name without their module, as those in HDF5 do: what they are is up to Keras alone.
   Sorted by their bytes. */
/* clang-format off */
static const char *const keras_classes[] = {
    "AUC", "AWQConfig", "AWQDTypePolicy", "AbsMaxQuantizer", "AbstractRNNCell", "Accuracy", "Activation",
    "ActivityRegularization", "ActivityRegularizer", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax",
    "AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D",
    "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D", "Add", "AdditiveAttention", "AlphaDropout", "AtrousConvolution1D",
    "AtrousConvolution2D", "Attention", "AugMix", "AutoContrast", "Average", "AveragePooling1D", "AveragePooling2D",
    "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization", "BatchNormalizationV1",
    "BatchNormalizationV2", "Bidirectional", "BinaryAccuracy", "BinaryCrossentropy", "BinaryFocalCrossentropy",
    "BinaryIoU", "CTC", "CategoricalAccuracy", "CategoricalCrossentropy", "CategoricalFocalCrossentropy",
    "CategoricalGeneralizedCrossEntropy", "CategoricalHinge", "CategoryEncoding", "CenterCrop", "Circle",
    "Concatenate", "ConcordanceCorrelation", "Constant", "ConstantV2", "Constraint",
    "ContrastLimitedAdaptiveHistogramEqualization", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose",
    "Conv3D", "Conv3DTranspose", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Convolution1D", "Convolution1DTranspose",
    "Convolution2D", "Convolution2DTranspose", "Convolution3D", "Convolution3DTranspose", "CosineDecay",
    "CosineDecayRestarts", "CosineProximity", "CosineSimilarity", "Cropping1D", "Cropping2D", "Cropping3D",
    "CrossEntropy", "CuDNNGRU", "CuDNNLSTM", "CutMix", "DTypePolicy", "DTypePolicyMap", "Deconvolution2D", "Dense",
    "DenseFeatures", "DepthwiseConv1D", "DepthwiseConv2D", "Dice", "Discretization", "Dot", "Dropout",
    "DynamicLossScale", "ELU", "EinsumDense", "Embedding", "Equalization", "ExponentialDecay", "F1Score",
    "FBetaScore", "FalseNegatives", "FalsePositives", "FixedLossScale", "Flatten", "Float8QuantizationConfig",
    "FloatDTypePolicy", "Ftrl", "Functional", "GPTQConfig", "GPTQDTypePolicy", "GRU", "GRUCell", "GRUV1", "GRUV2",
    "GaussianDropout", "GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D",
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GlorotNormal", "GlorotNormalV2",
    "GlorotUniform", "GlorotUniformV2", "GroupNormalization", "GroupQueryAttention", "HashedCrossing", "Hashing",
    "HeNormal", "HeNormalV2", "HeUniform", "Highway", "Hinge", "Huber", "Identity", "IdentityInitializer",
    "Initializer", "InputLayer", "InputSpec", "Int4DTypePolicy", "Int4QuantizationConfig", "Int8QuantizationConfig",
    "IntegerLookup", "InverseTimeDecay", "IoU", "KLD", "KLDivergence", "KullbackLeiblerDivergence", "L1", "L1L2",
    "L2", "LSTM", "LSTMCell", "LSTMV1", "LSTMV2", "Lamb", "Layer", "LayerNormalization", "LeakyReLU",
    "LearningRateSchedule", "LecunNormal", "LecunUniform", "Lion", "LocallyConnected1D", "LocallyConnected2D",
    "LogCosh", "LogCoshError", "Loss", "LossFunctionWrapper", "LossScaleOptimizer", "LossScaleOptimizerV1",
    "LossScaleOptimizerV3", "Masking", "MaxNorm", "MaxNumBoundingBoxes", "MaxPool1D", "MaxPool2D", "MaxPool3D",
    "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum", "MaxoutDense", "Mean", "MeanAbsoluteError",
    "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper", "MeanRelativeError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "MeanTensor", "MelSpectrogram", "Merge", "Metric", "MinMaxNorm", "Minimum",
    "MixUp", "Model", "MultiHeadAttention", "MultiOptimizer", "Multiply", "Muon", "Nadam", "NonNeg", "Normalization",
    "OneHotIoU", "OneHotMeanIoU", "Ones", "OnesV2", "Optimizer", "OptimizerMap", "Orthogonal",
    "OrthogonalInitializer", "OrthogonalRegularizer", "PReLU", "PearsonCorrelation", "PeepholeLSTMCell", "Permute",
    "PiecewiseConstantDecay", "Pipeline", "Poisson", "Policy", "PolicyV1", "PolynomialDecay", "Precision",
    "PrecisionAtRecall", "QuantizationConfig", "QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy", "Quantizer",
    "R2Score", "RMSNormalization", "RMSprop", "RNN", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform", "RandomErasing", "RandomFlip",
    "RandomFourierFeatures", "RandomGaussianBlur", "RandomGrayscale", "RandomHeight", "RandomHue", "RandomInvert",
    "RandomNormal", "RandomNormalV2", "RandomPerspective", "RandomPosterization", "RandomRotation",
    "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomUniform", "RandomUniformV2",
    "RandomWidth", "RandomZoom", "ReLU", "Recall", "RecallAtPrecision", "Regularizer", "RepeatVector", "Rescaling",
    "Reshape", "Resizing", "ReversibleEmbedding", "RootMeanSquaredError", "SGD", "STFT", "STFTInitializer",
    "STFTSpectrogram", "ScheduleFreeAdamW", "SeedGenerator", "SensitivityAtSpecificity", "SeparableConv1D",
    "SeparableConv2D", "SeparableConvolution1D", "SeparableConvolution2D", "Sequential", "SimpleRNN", "SimpleRNNCell",
    "SlicingOpLambda", "Softmax", "Solarization", "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy",
    "SparseTopKCategoricalAccuracy", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "SpecificityAtSensitivity", "SpectralNormalization", "SquaredHinge", "StackedRNNCells", "StringLookup",
    "Subtract", "Sum", "SumOverBatchSize", "SumOverBatchSizeMetricWrapper", "SyncBatchNormalization", "TensorShape",
    "TextVectorization", "ThresholdedReLU", "TimeDistributed", "TopKCategoricalAccuracy", "TrueNegatives",
    "TruePositives", "TruncatedNormal", "TruncatedNormalV2", "Tversky", "UnitNorm", "UnitNormalization",
    "UpSampling1D", "UpSampling2D", "UpSampling3D", "VarianceScaling", "WeightRegularizer", "Wrapper",
    "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Zeros", "ZerosV2", "__bytes__", "__ellipsis__",
    "__keras_tensor__", "__numpy__", "__slice__", "__tensor__", "__tuple__", "__typespec__", "constant",
    "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "l1", "l1_l2", "l2", "lecun_normal",
    "lecun_uniform", "max_norm", "min_max_norm", "non_neg", "ones", "orthogonal", "orthogonal_regularizer",
    "random_normal", "random_uniform", "stft", "truncated_normal", "unit_norm", "variance_scaling", "zeros",
};
/* clang-format on */

/* Modules whose functions and classes models are made of. */
static const char *const keras_parts[] = {
    "keras.activations", "keras.constraints", "keras.initializers", "keras.layers",
    "keras.losses",      "keras.metrics",     "keras.ops",          "keras.optimizers",
    "keras.quantizers",  "keras.random",      "keras.regularizers", "keras.dtype_policies",
};

const char *coffer__keras_member_name(unsigned member)
{
    static const char *const names[COFFER__KERAS_MEMBERS] = { "class_name", "module", "registered_name", "config",
                                                              "vocabulary" };
    return names[member];
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static int keras_compare_class(const void *ctx, size_t i, const void *wanted)
{
    const coffer__keras_object *object = wanted;
    (void)ctx;
    return coffer__compare_names(keras_classes[i], coffer__text_len(keras_classes[i]),
                                 object->members[COFFER__KERAS_CLASS], object->lens[COFFER__KERAS_CLASS]);
}

/* TensorFlow's Keras calls some of its own "Custom>Adam". */
static bool keras_is_class(const char *name, size_t len)
{
    static const char own[] = "Custom>";
    const size_t skipped = len >= sizeof own - 1 && memcmp(name, own, sizeof own - 1) == 0 ? sizeof own - 1 : 0;
    const coffer__keras_object wanted = { .members = { name + skipped }, .lens = { len - skipped } };
    size_t found = 0;
    return coffer__find_sorted(sizeof keras_classes / sizeof *keras_classes, keras_compare_class, NULL, &wanted,
                               &found);
}

/* Whether a text is a word, or continues it after a dot. */
static bool keras_is_under(const char *text, size_t len, const char *word)
{
    const size_t word_len = coffer__text_len(word);
    return len >= word_len && memcmp(text, word, word_len) == 0 && (len == word_len || text[word_len] == '.');
}

static bool keras_is_part(const char *module, size_t len)
{
    for (size_t i = 0; i < sizeof keras_parts / sizeof *keras_parts; i++) {
        if (keras_is_under(module, len, keras_parts[i])) {
            return true;
        }
    }
    return false;
}

/* Classes begin with a large letter. What makes objects of configurations is among the functions of many modules. */
static bool keras_is_function(const char *name, size_t len)
{
    return len == 0 || !(name[0] >= 'A' && name[0] <= 'Z') || memchr(name, '.', len) != NULL;
}

static bool keras_makes_objects(const char *name, size_t len)
{
    static const char *const makers[] = { "deserialize", "serialize", "get" };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        const size_t maker = coffer__text_len(makers[i]);
        if (len >= maker && memcmp(name, makers[i], maker) == 0) {
            return true;
        }
    }
    return false;
}

/* A text with a NUL at its end, as the table of names wants it. What has one within it is cut there, and is known by no
   loader. */
static void keras_copy(char out[KERAS_NAME], const char *text, size_t len)
{
    const size_t kept = len < KERAS_NAME - 1 ? len : KERAS_NAME - 1;
    memcpy(out, text, kept);
    out[kept] = '\0';
}

/* ---- judging ------------------------------------------------------------------------------------------------------- */

static bool keras_tell(coffer__keras_finding *finding, coffer_weight weight, const char *sentence, const char *module,
                       size_t module_len, const char *name, size_t name_len)
{
    const char *const parts[] = { module, module_len > 0 ? "." : "", name };
    const size_t lens[] = { module_len, module_len > 0, name_len };
    finding->weight = weight;
    finding->sentence = sentence;
    finding->len = 0;
    for (size_t i = 0; i < 3; i++) {
        const size_t left = sizeof finding->subject - finding->len;
        const size_t len = lens[i] < left ? lens[i] : left;
        memcpy(finding->subject + finding->len, parts[i], len);
        finding->len += len;
    }
    return true;
}

/* A name of a module that is not Keras's. Names of Keras's own functions have the module of Python's. */
static bool keras_judge_foreign(const char *module, size_t module_len, const char *name, size_t name_len,
                                coffer__keras_finding *finding)
{
    char module_text[KERAS_NAME];
    char name_text[KERAS_NAME];
    keras_copy(module_text, module, module_len);
    keras_copy(name_text, name, name_len);
    const coffer__judgement judgement = coffer__known_global(module_text, name_text).judgement;
    if (coffer__text_is(module, module_len, "builtins") && judgement != COFFER__GLOBAL_DANGEROUS) {
        return false;
    }
    const bool danger = judgement == COFFER__GLOBAL_DANGEROUS;
    return keras_tell(finding, danger ? COFFER_WEIGHT_DANGER : COFFER_WEIGHT_OPAQUE,
                      danger ? keras_imports : keras_custom, module, module_len, name, name_len);
}

/* A name with its module. */
static bool keras_judge_name(const char *module, size_t module_len, const char *name, size_t name_len,
                             coffer__keras_finding *finding)
{
    if (!keras_is_under(module, module_len, "keras")) {
        return keras_judge_foreign(module, module_len, name, name_len, finding);
    }
    const bool part = !keras_is_function(name, name_len) ||
                      (keras_is_part(module, module_len) && memchr(name, '.', name_len) == NULL &&
                       !keras_makes_objects(name, name_len));
    return !part && keras_tell(finding, COFFER_WEIGHT_DANGER, keras_tool, module, module_len, name, name_len);
}

/* Layers that run something of the file's or of other files', whatever module is said. */
static const char *keras_special(const coffer__keras_object *object)
{
    static const struct {
        const char *name;
        const char *sentence;
    } special[] = {
        { "Lambda", keras_code },
        { "__lambda__", keras_code },
        { "TorchModuleWrapper", keras_torch },
        { "TFSMLayer", keras_program },
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if (coffer__text_is(object->members[COFFER__KERAS_CLASS], object->lens[COFFER__KERAS_CLASS], special[i].name)) {
            return special[i].sentence;
        }
    }
    return NULL;
}

/* The name under which a program registers an object of its own goes before the class: "package>name". */
static bool keras_is_registered(const coffer__keras_object *object)
{
    const char *name = object->members[COFFER__KERAS_REGISTERED];
    const size_t len = object->lens[COFFER__KERAS_REGISTERED];
    return name != NULL && memchr(name, '>', len) != NULL && !keras_is_class(name, len);
}

/* An object whose module is said. Keras before 3.9 looks the registered name up there, too. */
static bool keras_judge_located(const coffer__keras_object *object, const char *name, size_t len,
                                coffer__keras_finding *finding)
{
    const char *module = object->members[COFFER__KERAS_MODULE];
    const size_t module_len = object->lens[COFFER__KERAS_MODULE];
    const char *registered = object->members[COFFER__KERAS_REGISTERED];
    const size_t registered_len = object->lens[COFFER__KERAS_REGISTERED];
    if (keras_judge_name(module, module_len, name, len, finding)) {
        return true;
    }
    return registered != NULL && memchr(registered, '>', registered_len) == NULL &&
           !coffer__text_is(registered, registered_len, "function") &&
           keras_judge_name(module, module_len, registered, registered_len, finding);
}

bool coffer__keras_judge(const coffer__keras_object *object, coffer__keras_finding *finding)
{
    const bool function =
        coffer__text_is(object->members[COFFER__KERAS_CLASS], object->lens[COFFER__KERAS_CLASS], "function");
    const unsigned named =
        function && object->members[COFFER__KERAS_CONFIG] != NULL ? COFFER__KERAS_CONFIG : COFFER__KERAS_CLASS;
    const char *name = object->members[named];
    const size_t len = object->lens[named];
    const char *vocabulary = object->members[COFFER__KERAS_VOCABULARY];
    if (keras_special(object) != NULL) {
        return keras_tell(finding, COFFER_WEIGHT_DANGER, keras_special(object), "", 0, name, len);
    }
    if (!object->has_config) {
        return false;
    }
    if (vocabulary != NULL && object->lens[COFFER__KERAS_VOCABULARY] > 0) {
        return keras_tell(finding, COFFER_WEIGHT_DANGER, keras_reads, "", 0, vocabulary,
                          object->lens[COFFER__KERAS_VOCABULARY]);
    }
    if (keras_is_registered(object)) {
        return keras_tell(finding, COFFER_WEIGHT_OPAQUE, keras_custom, "", 0, object->members[COFFER__KERAS_REGISTERED],
                          object->lens[COFFER__KERAS_REGISTERED]);
    }
    if (object->members[COFFER__KERAS_MODULE] != NULL) {
        return keras_judge_located(object, name, len, finding);
    }
    return !keras_is_class(name, len) && keras_tell(finding, COFFER_WEIGHT_OPAQUE, keras_custom, "", 0, name, len);
}
