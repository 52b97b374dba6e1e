/* op_ml.c -- family "ml": the table of domain ai.onnx.ml. */
#include "oracle/ml.h"

#define ML "ai.onnx.ml"
#define P VN_OP_PROPAGATES

static const vn_op_t rows[] = {
    {ML, "ArrayFeatureExtractor", 1, 0, VN_CLASS_MOVEMENT, VN_OP_MAPS, "ML-FEATURE", vn_ml_array_feature_extractor,
     vn_infer_ml_array_feature_extractor, 0},
    {ML, "Binarizer", 1, 0, VN_CLASS_EXACT, 0, "ML-FEATURE", vn_ml_binarizer, vn_infer_ml_binarizer, 0},
    {ML, "CastMap", 1, 0, VN_CLASS_EXACT, 0, "ML-MAP", vn_ml_cast_map, vn_infer_ml_cast_map, 0},
    {ML, "CategoryMapper", 1, 0, VN_CLASS_EXACT, 0, "ML-LABEL", vn_ml_category_mapper, vn_infer_ml_category_mapper, 0},
    {ML, "DictVectorizer", 1, 0, VN_CLASS_MOVEMENT, 0, "ML-MAP", vn_ml_dict_vectorizer, vn_infer_ml_dict_vectorizer, 0},
    {ML, "FeatureVectorizer", 1, 0, VN_CLASS_EXACT, 0, "ML-FEATURE", vn_ml_feature_vectorizer, vn_infer_ml_feature_vectorizer, 0},
    {ML, "Imputer", 1, 0, VN_CLASS_EXACT, 0, "ML-FEATURE", vn_ml_imputer, vn_infer_ml_imputer, 0},
    {ML, "LabelEncoder", 1, 1, VN_CLASS_EXACT, 0, "ML-LABEL", vn_ml_label_encoder, vn_infer_ml_label_encoder, 0},
    {ML, "LabelEncoder", 2, 3, VN_CLASS_EXACT, 0, "ML-LABEL", vn_ml_label_encoder, vn_infer_ml_label_encoder, 0},
    {ML, "LabelEncoder", 4, 0, VN_CLASS_EXACT, 0, "ML-LABEL", vn_ml_label_encoder, vn_infer_ml_label_encoder, 0},
    {ML, "LinearClassifier", 1, 0, VN_CLASS_CONTRACTION, P, "ML-LINEAR", vn_ml_linear_classifier, vn_infer_ml_linear_classifier, 0},
    {ML, "LinearRegressor", 1, 0, VN_CLASS_CONTRACTION, P, "ML-LINEAR", vn_ml_linear_regressor, vn_infer_ml_linear_regressor, 0},
    {ML, "Normalizer", 1, 0, VN_CLASS_NORMALISATION, 0, "ML-NORMAL", vn_ml_normalizer, vn_infer_ml_normalizer, 0},
    {ML, "OneHotEncoder", 1, 0, VN_CLASS_EXACT, 0, "ML-FEATURE", vn_ml_one_hot_encoder, vn_infer_ml_one_hot_encoder, 0},
    {ML, "SVMClassifier", 1, 0, VN_CLASS_COMPOSITE, P, "ML-SVM", vn_ml_svm_classifier, vn_infer_ml_svm_classifier, 0},
    {ML, "SVMRegressor", 1, 0, VN_CLASS_COMPOSITE, P, "ML-SVM", vn_ml_svm_regressor, vn_infer_ml_svm_regressor, 0},
    {ML, "Scaler", 1, 0, VN_CLASS_ELEMENTARY, P, "ML-SCALE", vn_ml_scaler, vn_infer_ml_scaler, 0},
    {ML, "TreeEnsemble", 5, 0, VN_CLASS_REDUCTION, 0, "ML-TREE", vn_ml_tree_ensemble, vn_infer_ml_tree_ensemble, 0},
    {ML, "TreeEnsembleClassifier", 1, 2, VN_CLASS_REDUCTION, 0, "ML-BINARY", vn_ml_tree_classifier, vn_infer_ml_tree_classifier, 0},
    {ML, "TreeEnsembleClassifier", 3, 0, VN_CLASS_REDUCTION, 0, "ML-BINARY", vn_ml_tree_classifier, vn_infer_ml_tree_classifier, 0},
    {ML, "TreeEnsembleRegressor", 1, 2, VN_CLASS_REDUCTION, 0, "ML-TREE", vn_ml_tree_regressor, vn_infer_ml_tree_regressor, 0},
    {ML, "TreeEnsembleRegressor", 3, 0, VN_CLASS_REDUCTION, 0, "ML-TREE", vn_ml_tree_regressor, vn_infer_ml_tree_regressor, 0},
    {ML, "ZipMap", 1, 0, VN_CLASS_MOVEMENT, 0, "ML-MAP", vn_ml_zip_map, NULL, 0},
};

const vn_family_t vn_family_ml = {"ml", rows, sizeof rows / sizeof *rows};
